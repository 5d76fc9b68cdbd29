// Package traffic keeps the history of what passes through a system: how many messages were enqueued,
// published and handled, how many attempts failed, how long messages took, and how many waited.
//
// A [Recorder] is an observer of writers, relays and consumers. It counts in memory, and adds one small
// row to the store each minute in which anything happened: no message waits for it. It also merges rows
// that are older than two hours to one for ten minutes, those older than two days to one for an hour, and
// removes those older than [Retention]. [Load] reads what all processes have recorded.
//
// A service records by itself if its store is a [Store]. Other programs pass a Recorder to their
// writers, relays and consumers as their observer, and run it.
package traffic
