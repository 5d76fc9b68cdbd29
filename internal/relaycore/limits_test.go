package relaycore

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestIsolated_Batches: of the isolated topics of a destination a limited number of batches is in flight, and one
// of each until it has answered.
func TestIsolated_Batches(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.BatchSize, c.LeaseTTL = 200, time.Hour })
	r.own(Lane{0, 1})
	const topics = isolatedBatches + 4
	list := []Message{to("good", msg(1000, ""))}
	for n := range topics {
		list = append(list, to(fmt.Sprint("bad ", n), msg(int64(n+1), "")), to(fmt.Sprint("bad ", n), msg(int64(n+1+topics), "k")))
	}
	r.claimed(list...)
	b := take[Publish](r).Batch
	results := slices.Repeat([]Result{unavailable}, len(b.Messages))
	results[len(results)-1] = accepted
	r.answer(b, results...)
	r.pass(100 * time.Millisecond)
	var sent []*Batch
	for slices.ContainsFunc(r.pending, func(c Command) bool { _, ok := c.(Publish); return ok }) {
		sent = append(sent, take[Publish](r).Batch)
	}
	if len(sent) != isolatedBatches {
		t.Fatalf("%d batches of isolated topics are in flight, want %d", len(sent), isolatedBatches)
	}
	r.answer(sent[0])
	take[Publish](r)
	none[Publish](r)
}

// TestQuiet: what goes well is not reported as a failure.
func TestQuiet(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Order = Park })
	r.own(Lane{0, 1})
	r.claimed(msg(1, "k"), msg(2, ""))
	r.answer(r.sent(1, 2))
	r.stores("1 published, 2 published")
	r.rests()
	for _, rep := range r.reports {
		if rep.Err != nil || !slices.Contains([]What{Claims, LanesChanged, PublishedNow, SettledNow}, rep.What) {
			t.Errorf("reported %+v", rep)
		}
	}
	if s := r.Stats(); s.Published != 2 || s.Retried != 0 || s.Dead != 0 || s.Held != 0 || s.Bytes != 0 || s.BackPressure {
		t.Errorf("Stats() = %+v", s)
	}
	if errs := r.Health(r.at); errs != nil {
		t.Errorf("Health() = %v", errs)
	}
}

// TestClaim_Little: claims that find little follow one another at once for a while, then at intervals.
func TestClaim_Little(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.LeaseTTL, c.PollInterval = time.Hour, time.Hour })
	r.own(Lane{0, 1})
	r.claimed()
	take[Await](r)
	r.at = time.Second
	r.step(Woken{})
	claims := 0
	for ; slices.ContainsFunc(r.pending, func(c Command) bool { _, ok := c.(Claim); return ok }); claims++ {
		take[Claim](r)
		r.step(Claimed{})
		take[Await](r)
		r.step(Woken{})
	}
	if claims != claimBurst+1 {
		t.Errorf("%d claims at once, want %d", claims, claimBurst+1)
	}
	for range 3 {
		if next := r.Next(); next != r.at+claimInterval {
			t.Fatalf("Next() = %v at %v, want an interval later", next, r.at)
		}
		r.pass(claimInterval)
		take[Claim](r)
		r.step(Claimed{})
		take[Await](r)
		r.step(Woken{})
		none[Claim](r)
	}
}
