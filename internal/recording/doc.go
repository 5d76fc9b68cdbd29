// Package recording records the events of a relay's core in a file of bounded size, and replays them
// through the core. The core decides by its events alone (package relaycore), so that the same events
// lead to the same commands: the file reproduces the relay's run.
//
// For a message it holds position, lane, destination, topic, id, size and flags; keys and tenants
// as hashes under a secret that is not stored. For an error it holds the kind and the reason.
// Payloads, headers and texts of errors never reach the core, or are not written.
//
// # The file
//
// A file has a preamble and two halves. A half holds one segment; while one is written the other keeps
// the previous segment, and is overwritten when the newer is full. A segment is a header and frames,
// each with a checksum that includes the segment's random number, so that remains of earlier segments
// are recognised. The payloads of its frames are a sequence of records:
//
//   - a restart: the state of the core, from which replaying begins. Each segment begins with one.
//   - a step: the time since the record before, an event, and a checksum of the commands that followed.
//
// The state is written as a graph of values, whatever their types (graph.go): a core of another version
// has other types, which the restart shows, and is not replayed.
package recording
