package relay

import (
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/recording"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// Recorder records a relay in a file: the input of its decisions, and their results. "waybill relay replay"
// replays the relay's decisions from the file and shows what happened to a message, and why. The file holds
// positions, ids, topics, destinations, sizes, times and outcomes of messages, keys
// and tenants as hashes, and of errors the kind and the reason; no payloads, headers or texts of errors.
//
// The file has a fixed size: newer records replace older ones, and at least the newer half is kept. Only
// its owner may read it. Recording never blocks the relay: if the file cannot be written, or not fast
// enough, it pauses for a minute, which is observed as an error of the loop "relay record".
type Recorder struct {
	w *recording.Writer
}

// RecorderConfig configures a [Recorder]. The zero value stands for the defaults.
type RecorderConfig struct {
	// Size is the maximum size of the file, in bytes. 1 MiB to 1 GiB. A message takes about 60 bytes.
	// Optional; the default is 64 MiB.
	Size int64

	// PlainKeys records keys and tenants in plain text instead of their hashes.
	PlainKeys bool
}

// OpenRecorder returns a recorder to a file, which it creates if it does not exist. The newer half of an
// earlier recording in it is kept. A file that is no recording is not changed: the error says so. One
// relay at a time may record to a file.
func OpenRecorder(path string, cfg RecorderConfig) (*Recorder, error) {
	fill(&cfg.Size, recording.DefaultSize)
	if cfg.Size < recording.MinSize || cfg.Size > recording.MaxSize {
		return nil, &waybill.InvalidError{
			Field:  "relay.RecorderConfig.Size",
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

// conceal replaces keys and tenants by hashes before they reach the core, which only compares them.
func (r *Recorder) conceal(messages []relaycore.Message) {
	if r != nil {
		r.w.Conceal(messages)
	}
}

// reveal returns the tenants for hashes of the core, and whether all are known.
func (r *Recorder) reveal(tenants []string) (names []string, known bool) {
	if r == nil {
		return tenants, true
	}
	return r.w.Reveal(tenants)
}

// beginRecording begins to record a run.
func (r *run) beginRecording() {
	if r.cfg.Recorder == nil {
		return
	}
	ctx := r.work
	report := func(err error) {
		for _, e := range r.failedLoop("record", err) {
			r.observe(ctx, e)
		}
	}
	if !r.cfg.Recorder.w.Begin(r.core, r.began, report) {
		go report(errRecorderTaken)
		return
	}
	r.recorder = r.cfg.Recorder.w
}

var errRecorderTaken = errors.New("nothing is recorded: the recorder is another relay's")

// endRecording ends the recording of a run.
func (r *run) endRecording() {
	if r.recorder != nil {
		r.recorder.End()
	}
}
