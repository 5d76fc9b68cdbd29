package relay

import (
	"errors"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// conceal replaces keys and tenants by hashes before they reach the core, which only compares them.
func (r *Relay) conceal(messages []relaycore.Message) {
	if w := r.cfg.Recorder.Writer(); w != nil {
		w.Conceal(messages)
	}
}

// reveal returns the tenants for hashes of the core, and whether all are known.
func (r *Relay) reveal(tenants []string) (names []string, known bool) {
	w := r.cfg.Recorder.Writer()
	if w == nil {
		return tenants, true
	}
	return w.Reveal(tenants)
}

// beginRecording begins to record a run.
func (r *run) beginRecording() {
	w := r.cfg.Recorder.Writer()
	if w == nil {
		return
	}
	ctx := r.work
	report := func(err error) {
		for _, e := range r.failedLoop("record", err) {
			r.observe(ctx, e)
		}
	}
	if !w.Begin(r.core, r.began, report) {
		go report(errRecorderTaken)
		return
	}
	r.recorder = w
}

var errRecorderTaken = errors.New("nothing is recorded: the recorder is another relay's")

// endRecording ends the recording of a run.
func (r *run) endRecording() {
	if r.recorder != nil {
		r.recorder.End()
	}
}
