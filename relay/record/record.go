// Package record opens files in which relays record what they decide, and on what grounds.
package record

import (
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/recording"
)

// Recorder records a relay in a file, as the Recorder of its relay.Config: the input of its decisions, and
// their results. "waybill relay replay" replays the relay's decisions from the file and shows what happened to
// a message, and why. The file holds positions, ids, topics, destinations, sizes, times and outcomes of messages, keys
// and tenants as hashes, and of errors the kind and the reason; no payloads, headers or texts of errors.
//
// The file has a fixed size: newer records replace older ones, and at least the newer half is kept. Only
// its owner may read it. Recording never blocks the relay: if the file cannot be written, or not fast
// enough, it pauses for a minute, which is observed as an error of the loop "relay record".
type Recorder struct {
	w *recording.Writer
}

// Config configures a [Recorder]. The zero value stands for the defaults.
type Config struct {
	// Size is the maximum size of the file, in bytes. 1 MiB to 1 GiB. A message takes about 60 bytes.
	// Optional; the default is 64 MiB.
	Size int64

	// PlainKeys records keys and tenants in plain text instead of their hashes.
	PlainKeys bool
}

// Open returns a recorder to a file, which it creates if it does not exist. The newer half of an
// earlier recording in it is kept. A file that is no recording is not changed: the error says so. One
// relay at a time may record to a file.
func Open(path string, cfg Config) (*Recorder, error) {
	if cfg.Size == 0 {
		cfg.Size = recording.DefaultSize
	}
	if cfg.Size < recording.MinSize || cfg.Size > recording.MaxSize {
		return nil, &waybill.InvalidError{
			Field:  "record.Config.Size",
			Reason: fmt.Sprintf("is %d bytes, the range is %d to %d", cfg.Size, recording.MinSize, recording.MaxSize),
		}
	}
	w, err := recording.Open(path, recording.Config{Size: cfg.Size, Plain: cfg.PlainKeys})
	if err != nil {
		return nil, fmt.Errorf("record to a file: %w", err)
	}
	return &Recorder{w: w}, nil
}

// Close writes what is left and closes the file, after the relay's Run has returned. It waits for at most
// two seconds. It returns an error if something could not be written.
func (r *Recorder) Close() error { return r.w.Close() }

// Writer returns what the relay writes to, nil if r is nil. It is for package relay.
func (r *Recorder) Writer() *recording.Writer {
	if r == nil {
		return nil
	}
	return r.w
}
