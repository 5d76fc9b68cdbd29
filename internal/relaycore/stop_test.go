package relaycore

import (
	"testing"

	"github.com/waybill-go/waybill"
)

// TestStop_LeavesWhatIsNotInFlight: what a claim has found is left to other claims once the relay is to
// stop, and so is what comes back without an answer: nothing would send it any more, and the stop would
// wait for it.
func TestStop_LeavesWhatIsNotInFlight(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]func(*rig, *Batch){
		"claimed": func(r *rig, b *Batch) {
			r.step(Claimed{Messages: []Message{msg(3, "l")}})
			r.step(Answered{Batch: b})
			take[Settle](r)
			r.step(Settled{})
		},
		"not answered": func(r *rig, b *Batch) {
			r.step(Claimed{})
			r.step(Answered{Batch: b, Results: []Result{{Err: errTest, Kind: waybill.Unavailable}}})
		},
	} {
		r := newRig(t, func(c *Config) { c.BatchSize, c.Parallel = 1, 1 })
		r.own(Lane{0, 1})
		take[Release](r)
		r.step(Released{})
		take[Claim](r)
		r.step(Claimed{Messages: []Message{msg(1, "k"), msg(2, "k")}, Full: true})
		b := take[Publish](r).Batch
		r.step(Stop{})
		last(r, b)
		none[Publish](r)
		if !r.Done() {
			t.Errorf("%s: %d are held after the stop", name, r.held.count)
		}
	}
}

// TestStop_TakesNothingIn: what a claim finds after the stop has no outcome: an earlier message of its key
// may have been left to other claims.
func TestStop_TakesNothingIn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.own(Lane{0, 1})
	take[Release](r)
	r.step(Released{})
	take[Claim](r)
	r.step(Stop{})
	m := msg(1, "k")
	m.Expired = true
	r.step(Claimed{Messages: []Message{m}})
	none[Settle](r)
}
