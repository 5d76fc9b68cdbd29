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
	r.rests()
	r.at = time.Second
	r.step(Woken{})
	waits := func() bool {
		return slices.ContainsFunc(r.pending, func(c Command) bool { _, ok := c.(Await); return ok })
	}
	claims := 0
	for goes := true; goes && claims < 100; claims++ {
		take[Claim](r)
		r.step(Claimed{})
		if goes = waits(); goes {
			take[Await](r)
			r.step(Woken{})
		}
	}
	if claims != claimBurst+1 {
		t.Errorf("%d claims at once, want %d", claims, claimBurst+1)
	}
	for range 3 {
		if next := r.Next(); next != r.at+claimInterval {
			t.Fatalf("Next() = %v at %v, want an interval later", next, r.at)
		}
		r.pass(claimInterval)
		take[Await](r)
		r.step(Woken{})
		take[Claim](r)
		r.step(Claimed{})
		none[Await](r)
	}
}

// TestSpace: a claim is made for as many bytes as may still be held, if those are a quarter of all, and
// for as many messages as are likely to fit into them.
func TestSpace(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for held, want := range map[int]int{0: maxHeldBytes, maxHeldBytes * 3 / 4: maxHeldBytes / 4, maxHeldBytes*3/4 + 1: 0} {
		r.held.bytes = held
		if limit, bytes := r.space(1000, maxHeldBytes); bytes != want || (limit == 0) != (want == 0) {
			t.Errorf("%d bytes are held: space() = %d, %d, want %d bytes", held, limit, bytes, want)
		}
	}
	r.read.weight = maxHeldBytes / 8
	for held, want := range map[int]int{0: 8, maxHeldBytes / 2: 4, maxHeldBytes * 3 / 4: 2} {
		r.held.bytes = held
		if limit, _ := r.space(1000, maxHeldBytes); limit != want {
			t.Errorf("%d bytes are held, messages have %d: space() = %d messages, want %d", held, r.read.weight, limit, want)
		}
	}
}

// TestTenants_Share: a key that tenants share waits with the tenant of its first message, also when an
// earlier one comes.
func TestTenants_Share(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Dests = []Dest{{Rate: 1}} }) // nothing is sent yet
	r.own(Lane{0, 1})
	second := msg(2, "k")
	second.Tenant = "y"
	r.claimed(second)
	r.reads()
	r.step(Claimed{Messages: []Message{msg(1, "k")}})
	tenants := r.dests[0].main.tenants
	if x, y := tenants["x"], tenants["y"]; x == nil || len(x.ready) != 1 || y != nil && len(y.ready) != 0 {
		t.Errorf("the key is not with the tenant of its first message: %+v, %+v", x, y)
	}
}

// TestTenants_Forgotten: a queue keeps nothing of a tenant whose messages are gone.
func TestTenants_Forgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.BatchSize = 4 })
	r.own(Lane{0, 1})
	var list []Message
	for p := range int64(12) {
		m := msg(p+1, []string{"", "k"}[p%2])
		m.Tenant = fmt.Sprint(p % 5)
		list = append(list, m)
	}
	r.claimed(list...)
	for range 10 {
		left := 0
		for _, tenant := range r.dests[0].main.tenants {
			left += tenant.total
		}
		if left != r.dests[0].main.total {
			t.Fatalf("tenants have %d messages, the queue %d", left, r.dests[0].main.total)
		}
		if left == 0 {
			break
		}
		r.answer(take[Publish](r).Batch)
	}
	r.step(Tick{})
	if q := r.dests[0].main; q.total != 0 || len(q.tenants) != 0 || len(q.turns) != 0 {
		t.Errorf("%d messages, %d tenants, %d turns are left", q.total, len(q.tenants), len(q.turns))
	}
}

// TestIsolate_Repeats: the messages of a topic that is isolated leave in the same order each time.
func TestIsolate_Repeats(t *testing.T) {
	t.Parallel()
	run := func() []int64 {
		r := newRig(t, func(c *Config) { c.BatchSize, c.Parallel = 31, 1 })
		r.own(Lane{0, 1})
		list := []Message{to("good", msg(100, ""))}
		for p := range int64(60) {
			m := to("bad", msg(p+1, ""))
			m.Tenant = fmt.Sprint(p % 30)
			list = append(list, m)
		}
		r.claimed(list...)
		b := take[Publish](r).Batch
		results := slices.Repeat([]Result{unavailable}, len(b.Messages))
		results[slices.IndexFunc(b.Messages, func(m *Message) bool { return m.Topic == "good" })] = accepted
		r.answer(b, results...)
		r.pass(100 * time.Millisecond)
		return positions(take[Publish](r).Batch.Messages)
	}
	first := run()
	for range 10 {
		if again := run(); !slices.Equal(again, first) {
			t.Fatalf("sent %v, then %v", first, again)
		}
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.BatchSize, c.Parallel, c.LeaseTTL = 350, 1, time.Hour })
	r.own(Lane{0, 1})
	var list []Message
	for n := range 2000 {
		list = append(list, msg(int64(n+1), ""))
	}
	r.claimed(list...)
	for _, tc := range []struct {
		want   int // messages
		took   time.Duration
		result Result
	}{
		{100, 0, accepted},
		{200, time.Second/4 - 1, accepted},
		{350, time.Second / 2, accepted},
		{350, time.Second/2 + 1, accepted},
		{175, time.Second / 4, accepted},
		{175, time.Second - 1, accepted},
		{100, time.Second - 1, accepted},
		{100, 0, accepted},
		{200, 0, lost},
		{100, 0, accepted},
		{200, 0, accepted},
	} {
		b := take[Publish](r).Batch
		if len(b.Messages) != tc.want {
			t.Fatalf("a batch of %d messages, want %d", len(b.Messages), tc.want)
		}
		r.pass(tc.took)
		r.answer(b, slices.Repeat([]Result{tc.result}, len(b.Messages))...)
		if tc.result.Err != nil {
			r.pass(2 * time.Second) // so long is a pause after a failure at most
		}
	}
}
