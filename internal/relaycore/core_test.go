package relaycore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/backoff"
)

// rig drives a core by hand.
type rig struct {
	*Core
	t       *testing.T
	at      Time
	pending []Command // not answered yet
	reports []Report
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	retry, err := backoff.WithDefaults(waybill.RetryPolicy{DisableJitter: true})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Dests: []Dest{{}}, BatchSize: 10, Parallel: 2, Retry: retry, MaxParked: 10, MaxParkedKeys: 3,
		LeaseTTL: 8 * time.Second, RenewInterval: 2 * time.Second, PublishTimeout: 4 * time.Second,
		PollInterval: 5 * time.Second, CallTimeout: 8 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	return &rig{Core: New(cfg), t: t}
}

// step sends an event and keeps the commands.
func (r *rig) step(e Event) {
	for _, cmd := range r.Step(r.at, e) {
		if report, ok := cmd.(Report); ok {
			r.reports = append(r.reports, report)
		} else {
			r.pending = append(r.pending, cmd)
		}
	}
}

// take returns the first pending command of a type.
func take[C Command](r *rig) C {
	r.t.Helper()
	for i, cmd := range r.pending {
		if c, ok := cmd.(C); ok {
			r.pending = slices.Delete(r.pending, i, i+1)
			return c
		}
	}
	var none C
	r.t.Fatalf("no %T among %v", none, r.pending)
	return none
}

// none fails if a command of a type is pending.
func none[C Command](r *rig) {
	r.t.Helper()
	for _, cmd := range r.pending {
		if c, ok := cmd.(C); ok {
			r.t.Fatalf("%T is wanted: %+v", c, c)
		}
	}
}

// pass lets time go by.
func (r *rig) pass(d time.Duration) {
	r.at += d
	r.step(Tick{})
}

// own makes the relay the owner of lanes, and answers what it reads first with nothing.
func (r *rig) own(lanes ...Lane) {
	r.step(Tick{})
	take[Renew](r)
	r.step(Leased{Lanes: lanes, Share: len(lanes), Total: len(lanes)})
}

// claimed answers the release and the claim that are wanted with messages.
func (r *rig) claimed(messages ...Message) {
	r.t.Helper()
	r.reads()
	r.step(Claimed{Messages: messages})
}

func msg(position int64, key string) Message {
	return Message{Position: position, Lane: Lane{0, 1}, Topic: "t", Key: key, Tenant: "x", Size: EmptySize, Routes: []string{""}}
}

func positions(list []*Message) (p []int64) {
	for _, m := range list {
		p = append(p, m.Position)
	}
	return p
}

var errTest = errors.New("test")

// TestConclude: what becomes of a message by the result of sending it.
func TestConclude(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		attempts int
		result   Result
		want     Settlement // Outcome, Attempts, After, Life, Reason
		stays    bool
	}{
		{name: "accepted", want: Settlement{Outcome: Published}},
		{name: "first failure", result: Result{Err: errTest}, want: Settlement{Outcome: Wait, Attempts: 1, After: time.Second}},
		{name: "fifth failure", attempts: 4, result: Result{Err: errTest}, want: Settlement{Outcome: Wait, Attempts: 5, After: 16 * time.Second}},
		{name: "sixth failure", attempts: 5, result: Result{Err: errTest}, want: Settlement{Outcome: DeadLetter, Attempts: 6, Reason: waybill.ReasonExhausted}},
		{name: "permanent", result: Result{Err: errTest, Kind: waybill.Permanent, Reason: waybill.ReasonTooLarge}, want: Settlement{Outcome: DeadLetter, Attempts: 1, Reason: waybill.ReasonTooLarge}},
		{name: "reaches nobody", result: Result{Err: errTest, Kind: waybill.Permanent, Reason: waybill.ReasonUnroutable}, want: Settlement{Outcome: Wait, Attempts: 1, After: time.Second}},
		{name: "reaches nobody in the end", attempts: 5, result: Result{Err: errTest, Kind: waybill.Permanent, Reason: waybill.ReasonUnroutable}, want: Settlement{Outcome: DeadLetter, Attempts: 6, Reason: waybill.ReasonUnroutable}},
		{name: "no destination", result: Result{Err: errTest, Kind: waybill.Permanent, Reason: waybill.ReasonUnroutable, Final: true}, want: Settlement{Outcome: DeadLetter, Attempts: 1, Reason: waybill.ReasonUnroutable}},
		{name: "unavailable counts nothing", attempts: 3, result: Result{Err: errTest, Kind: waybill.Unavailable}, stays: true},
		{name: "retry after counts nothing", attempts: 3, result: Result{Err: errTest, Kind: waybill.Unavailable, After: 7 * time.Second}, want: Settlement{Outcome: Wait, Attempts: 3, After: 7 * time.Second}},
		{name: "conflict counts nothing", attempts: 3, result: Result{Err: errTest, Kind: waybill.Conflict}, want: Settlement{Outcome: Wait, Attempts: 3, After: time.Second}},
		{name: "swallowed begins a new life", result: Result{Err: errTest, Swallowed: true}, want: Settlement{Outcome: Wait, Life: 1}},
	} {
		r := newRig(t, nil)
		m := msg(1, "")
		m.Attempts = tt.attempts
		r.held.add(&m)
		if settled := r.conclude(&m, tt.result, time.Second); settled == tt.stays {
			t.Errorf("%s: conclude() = %v", tt.name, settled)
			continue
		}
		if tt.stays {
			continue
		}
		got := r.settler.waiting[0]
		if got.Outcome != tt.want.Outcome || got.Attempts != tt.want.Attempts || got.After != tt.want.After || got.Life != tt.want.Life || got.Reason != tt.want.Reason || got.Took != time.Second {
			t.Errorf("%s: settlement = %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestConclude_Order: an order policy decides whether a message that waits leaves its order, and whether
// a dead letter parks. One without a key has no order.
func TestConclude_Order(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		order       Order
		topic, key  string
		alone, park bool
	}{
		{Block, "t", "k", false, false}, {Park, "t", "k", false, true}, {Skip, "t", "k", true, false},
		{Park, "t", "", false, false}, {Skip, "t", "", false, false}, {Skip, "parks", "k", false, true},
	} {
		r := newRig(t, func(c *Config) { c.Order, c.TopicOrder = tt.order, map[string]Order{"parks": Park} })
		m := msg(1, tt.key)
		m.Topic = tt.topic
		var waits, dead Settlement
		waits.Message, dead.Message = &m, &m
		r.wait(&waits, 0)
		r.giveUp(&dead, waybill.ReasonExhausted)
		if waits.Alone != tt.alone || dead.Park != tt.park {
			t.Errorf("%+v: alone %v, park %v", tt, waits.Alone, dead.Park)
		}
	}
}

// TestDelay_Jitter: delays are spread by a fifth to both sides, by the seed.
func TestDelay_Jitter(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Retry.DisableJitter = false })
	low, high := time.Hour, time.Duration(0)
	for range 1000 {
		d := r.delay(1)
		low, high = min(low, d), max(high, d)
	}
	if low < 800*time.Millisecond || low > 820*time.Millisecond || high > 1200*time.Millisecond || high < 1180*time.Millisecond {
		t.Errorf("delays from %v to %v, want 0.8 s to 1.2 s", low, high)
	}
}

// TestBreaker: pauses double, and what fails during a pause does not make it longer.
func TestBreaker(t *testing.T) {
	t.Parallel()
	var b attempts
	now := Time(0)
	for _, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000} {
		if got := b.trip(now); got != want*time.Millisecond {
			t.Errorf("trip() = %v, want %v ms", got, want)
		}
		if got := b.trip(now + 1); got != want*time.Millisecond-1 {
			t.Errorf("trip() during a pause = %v, want what is left of it", got)
		}
		now = b.until
	}
	if b.since != 0 || !b.succeed(now) || b.paused(now) > 0 || b.succeed(now) {
		t.Errorf("reset() did not end the pauses: %+v", b)
	}
}

// TestLease_Lanes: lanes above the share leave, highest first; one that stays after all, or comes back
// under a new epoch, is read from its beginning.
func TestLease_Lanes(t *testing.T) {
	t.Parallel()
	var s lease
	all := []Lane{{0, 1}, {1, 1}, {2, 1}, {3, 1}}
	again := func() (numbers []int) {
		for _, st := range s.lanes {
			if st.again && !st.leaving {
				numbers, st.again = append(numbers, st.Number), false
			}
		}
		return numbers
	}
	if !s.take(all, 4) || len(again()) != 4 {
		t.Error("new lanes are no change, or not read from their beginning")
	}
	if s.take(all, 4) || again() != nil {
		t.Error("the same lanes are a change, or read from their beginning again")
	}
	if !s.take(all, 2) || !s.keeps(all[1]) || s.keeps(all[2]) || !s.owns(all[2]) {
		t.Errorf("with a share of two: %+v", s.lanes)
	}
	if s.keeps(all[3]) {
		t.Error("what is found in a leaving lane is taken in")
	}
	s.take(all[:3], 3)
	if s.keeps(all[2]) || !slices.Equal(again(), []int{2}) || !s.keeps(all[2]) {
		t.Error("the lane that was to leave and stays is not read from its beginning")
	}
	if !s.take([]Lane{{0, 1}, {1, 2}, {2, 1}}, 3) || s.owns(all[1]) || !slices.Equal(again(), []int{1}) {
		t.Errorf("a lane under a new epoch: %+v", s.lanes)
	}
}

// TestClaim_OlderEpoch: a lane that has come back is not read while messages of its old epoch are held.
func TestClaim_OlderEpoch(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.own(Lane{0, 1}, Lane{1, 1})
	r.claimed(msg(1, "k"))
	b := take[Publish](r).Batch
	r.pass(2 * time.Second)
	take[Renew](r)
	r.step(Leased{Lanes: []Lane{{0, 2}, {1, 1}}, Share: 2, Total: 2})
	take[Await](r)
	take[EndAwait](r)
	r.step(Woken{})
	take[Release](r)
	r.step(Released{})
	if c := take[Claim](r); !slices.Equal(c.Lanes, []Lane{{1, 1}}) {
		t.Errorf("claim of %v, want the other lane only", c.Lanes)
	}
	r.step(Claimed{})
	r.step(Answered{Batch: b}) // accepted, but the lane is somebody else's now
	take[EndAwait](r)
	r.step(Woken{})
	if c := take[Claim](r); len(c.Lanes) != 2 || !slices.Equal(c.Again, []int{0}) {
		t.Errorf("claim of %v, again %v, want both, the one that waited from its beginning", c.Lanes, c.Again)
	}
	none[Settle](r)
}

// TestOrder_Positions: messages without a key, and of different keys, leave in the order of their
// positions, whichever lane they lie in.
func TestOrder_Positions(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	lanes := []Lane{{0, 1}, {1, 1}, {2, 1}}
	r.own(lanes...)
	var list []Message
	for _, p := range []int64{4, 1, 7, 2, 5, 8, 3, 6, 9} {
		m := msg(p, []string{"", "k", "l"}[p%3])
		m.Lane, m.Topic = lanes[p%3], fmt.Sprint("t", p%2)
		list = append(list, m)
	}
	r.claimed(list...)
	if got := positions(take[Publish](r).Batch.Messages); !slices.IsSorted(got) || len(got) != 9 {
		t.Errorf("sent: %v, want all in order", got)
	}
}

// TestTenants: tenants take turns, whoever has more.
func TestTenants(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.BatchSize = 6 })
	r.own(Lane{0, 1})
	var list []Message
	for p := range int64(12) {
		m := msg(p+1, "")
		if p >= 9 {
			m.Tenant = "small"
		}
		list = append(list, m)
	}
	r.claimed(list...)
	if got, want := positions(take[Publish](r).Batch.Messages), []int64{1, 10, 2, 11, 3, 12}; !slices.Equal(got, want) {
		t.Errorf("sent: %v, want %v", got, want)
	}
}

// TestLookAhead_First: a relay that finds a backlog when it starts looks past it before it reads on.
func TestLookAhead_First(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Ahead, c.LeaseTTL, c.PollInterval = true, time.Minute, time.Minute })
	r.own(Lane{0, 1})
	take[Release](r)
	r.step(Released{})
	list := make([]Message, take[Claim](r).Limit)
	for i := range list {
		list[i] = msg(int64(i+1), "")
		list[i].Tenant = "large"
	}
	r.step(Claimed{Messages: list, Full: true})
	take[ClaimAhead](r)
}

// TestLookAhead: a relay that is behind looks past the tenants of which it holds half a batch, before it
// reads on; what it finds takes turns with them. The next look goes on where this one ended, but starts
// over when a tenant has little again.
func TestLookAhead(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) {
		c.Ahead, c.BatchSize, c.Parallel, c.LeaseTTL, c.PollInterval = true, 4, 1, time.Minute, time.Minute
	})
	r.read.weight = EmptySize
	r.own(Lane{0, 1}, Lane{1, 1})
	take[Release](r)
	r.step(Released{})
	if c := take[Claim](r); c.Limit != r.quarter()/2 {
		t.Errorf("the first claim reads %d messages, want half of %d", c.Limit, r.quarter())
	}
	backlog := func(tenant string, from, to int64) (list []Message) {
		for p := from; p <= to; p++ {
			m := msg(p, "")
			m.Tenant = tenant
			list = append(list, m)
		}
		return list
	}
	r.step(Claimed{Messages: backlog("large", 1, 12), Full: true})
	none[Claim](r)
	look := take[ClaimAhead](r)
	if len(look.Lanes) != 2 || !slices.Equal(look.Without, []string{"large"}) || look.Above != 0 || len(look.Held) != 12 {
		t.Errorf("look %+v, want past the large tenant, from the beginning", look)
	}
	b := take[Publish](r).Batch
	r.step(ClaimedAhead{Messages: backlog("small", 900, 905), Reached: 1000})
	take[Claim](r)
	r.step(Answered{Batch: b})
	b = take[Publish](r).Batch
	if got, want := positions(b.Messages), []int64{5, 900, 6, 901}; !slices.Equal(got, want) {
		t.Errorf("sent: %v, want %v", got, want)
	}
	r.step(Claimed{Messages: backlog("large", 13, 20), Full: true})
	none[ClaimAhead](r) // too soon
	r.pass(aheadInterval)
	take[Claim](r)
	r.step(Claimed{Messages: backlog("large", 29, 30), Full: true})
	if look = take[ClaimAhead](r); look.Above != 1000 || !slices.Equal(look.Without, []string{"large", "small"}) {
		t.Errorf("look %+v, want past both, from where the last one ended", look)
	}
	const took = 100 * time.Millisecond
	r.pass(took)
	r.step(ClaimedAhead{Err: errTest})
	if rep := r.reports[len(r.reports)-1]; rep.What != LoopFails || !errors.Is(rep.Err, errTest) {
		t.Errorf("reported %+v, want the failed look", rep)
	}
	r.step(Answered{Batch: b})
	for range 2 { // nothing of the small tenant is left
		r.step(Answered{Batch: take[Publish](r).Batch})
	}
	r.pass(aheadShare*took - time.Millisecond)
	take[Claim](r)
	r.step(Claimed{Messages: backlog("large", 21, 24), Full: true})
	none[ClaimAhead](r) // looks take a part of the time only
	r.pass(time.Millisecond)
	take[Claim](r)
	r.step(Claimed{Messages: backlog("large", 25, 28), Full: true})
	if look = take[ClaimAhead](r); look.Above != 0 || !slices.Equal(look.Without, []string{"large"}) {
		t.Errorf("look %+v, want from the beginning, where more of the small tenant may be", look)
	}
}

// TestReopen: a message without an answer goes behind what waits in the store of its key meanwhile, and
// so does what is between the two.
func TestReopen(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Strict = true })
	r.own(Lane{0, 1})
	list := []Message{msg(1, "k"), msg(2, "k"), msg(3, "k"), msg(4, "k")}
	for i := range 3 {
		list[i].Waiting = true
	}
	list[3].Blocked = true // behind what waited in the store when it was read
	r.claimed(list...)
	b := take[Publish](r).Batch
	if got := positions(b.Messages); !slices.Equal(got, []int64{1}) {
		t.Fatalf("sent: %v, want the first alone", got)
	}
	take[Settle](r) // the blocked one
	r.step(Answered{Batch: b, Results: []Result{{Err: errTest, Kind: waybill.Unavailable}}})
	r.step(Settled{})
	st := take[Settle](r)
	if len(st.Settlements) != 3 || !st.Settlements[0].Behind {
		t.Errorf("settled: %+v, want the other three behind", st.Settlements)
	}
	none[Publish](r)
}

// TestDefer_NothingPassesWhatIsInFlight: of a key that is in flight nothing is deferred.
func TestDefer_NothingPassesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Dests = []Dest{{Name: "a"}, {Name: "b"}}; c.BatchSize, c.Parallel = 1, 1 })
	r.own(Lane{0, 1})
	var list []Message
	for p := range int64(30) {
		m := msg(p+1, []string{"k", "l"}[p/15])
		m.Routes = []string{"a"}
		list = append(list, m)
	}
	r.claimed(list...)
	take[Publish](r)
	r.dests[0].main.slow = true
	r.trim(r.dests[0].main)
	for i, st := range r.settler.waiting {
		if st.Message.Key != "l" || st.Behind != (i > 0) || st.Message.Position != int64(16+i) {
			t.Errorf("outcome %d: position %d, behind %v, want those of the key that is not in flight, in order", i, st.Message.Position, st.Behind)
		}
	}
	if len(r.settler.waiting) != 15 {
		t.Errorf("%d are deferred, want the 15 of a key that is not in flight", len(r.settler.waiting))
	}
}

// TestDefer_SlowKeyGoesOn: a key of which more waits than a slow queue may hold is sent on, not deferred each time that it comes
// back.
func TestDefer_SlowKeyGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Dests = []Dest{{Name: "a"}, {Name: "b"}}; c.BatchSize, c.Parallel = 1, 1 })
	r.own(Lane{0, 1})
	r.dests[0].main.slow = true
	var list []Message
	for p := range int64(40) {
		m := msg(p+1, "k")
		m.Routes = []string{"a"}
		list = append(list, m)
	}
	r.claimed(list...)
	if got := positions(take[Publish](r).Batch.Messages); !slices.Equal(got, []int64{1}) {
		t.Errorf("sent: %v, want the first", got)
	}
}

// TestSuspects: a message is poison if it was alone on two connections that ended, each after another
// one had been accepted.
func TestSuspects(t *testing.T) {
	t.Parallel()
	d := newDest(Dest{})
	good, bad := msg(1, ""), msg(2, "")
	lost := Result{Err: errTest, Kind: waybill.Unavailable, Lost: true}
	send := func(r Result, alone bool, list ...*Message) (results []Result) {
		d.sends++
		b := &Batch{number: d.sends, Alone: alone}
		for _, m := range list {
			got, _ := d.learn(b, m, r, 0, 0)
			results = append(results, got)
		}
		return results
	}
	send(lost, false, &good, &bad)
	send(lost, false, &good, &bad)
	if !d.suspect(&good) || !d.suspect(&bad) {
		t.Fatal("both messages should be sent alone now")
	}
	for range 1000 { // an outage
		if r := send(lost, true, &bad); r[0].Reason == waybill.ReasonPoison {
			t.Fatal("a message is poison in an outage")
		}
	}
	send(Result{}, true, &good)
	if r := send(lost, true, &bad); r[0].Reason == waybill.ReasonPoison {
		t.Error("poison at once")
	}
	if r := send(lost, true, &bad); r[0].Reason == waybill.ReasonPoison {
		t.Error("poison without anything accepted in between")
	}
	send(Result{}, false, &good)
	if r := send(lost, true, &bad); r[0].Reason != waybill.ReasonPoison {
		t.Errorf("%+v, want poison", r[0])
	}
	if d.well() {
		t.Error("well() = true although the connection was just lost under a poison message")
	}
}

// TestSuspects_LateAnswers: what was sent before the connection was lost, and is known to be accepted
// only afterwards, does not show that the destination is well.
func TestSuspects_LateAnswers(t *testing.T) {
	t.Parallel()
	d := newDest(Dest{})
	m, other := msg(1, ""), msg(2, "")
	d.sends = 2
	d.learn(&Batch{number: 2}, &m, Result{Err: errTest, Kind: waybill.Unavailable, Lost: true}, 0, 0)
	d.learn(&Batch{number: 1}, &other, Result{}, 0, 0)
	if d.well() {
		t.Error("well() = true by an answer to what was sent before")
	}
}

// TestParked: at a limit of what is parked only what is due is claimed; what was found holds until the
// next count, also if that fails.
func TestParked(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Order, c.LeaseTTL = Park, time.Minute })
	r.own(Lane{0, 1})
	for _, tt := range []struct {
		keys, messages int
		err            error
		want           bool
	}{{2, 9, nil, false}, {3, 0, nil, true}, {0, 0, errTest, true}, {4, 20, nil, true}, {2, 9, nil, false}, {0, 10, nil, true}, {0, 0, nil, false}} {
		if r.read.phase == releasing {
			take[Release](r)
			r.step(Released{})
		}
		take[Count](r)
		r.step(Counted{Keys: tt.keys, Messages: tt.messages, Err: tt.err})
		if tt.err == nil {
			if c := take[Claim](r); c.DueOnly != tt.want {
				t.Errorf("%+v: due only %v", tt, c.DueOnly)
			}
			r.step(Claimed{})
		}
		if r.Stats().BackPressure != tt.want {
			t.Errorf("%+v: stats %+v", tt, r.Stats())
		}
		r.pass(parkedInterval)
		if r.read.phase == awaiting {
			r.step(Woken{})
		}
	}
	changes := 0
	for _, rep := range r.reports {
		if rep.What == BackPressure {
			changes++
		}
	}
	if changes != 4 {
		t.Errorf("%d reports of back-pressure, want two begins and two ends", changes)
	}
}

// TestLease_TooShort: nothing is sent while the lease might not outlast the answer.
func TestLease_TooShort(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.BatchSize, c.Parallel = 1, 1 })
	r.own(Lane{0, 1})
	r.claimed(msg(1, ""), msg(2, ""))
	b := take[Publish](r).Batch
	r.pass(4 * time.Second)
	take[Renew](r)
	r.step(Answered{Batch: b})
	none[Publish](r)
	r.step(Leased{Lanes: []Lane{{0, 1}}, Share: 1, Total: 1})
	take[Publish](r)
}

// TestRefused: a settlement that the store refuses is found by halves, kept apart and tried again, with
// what comes for its key; the others are stored.
func TestRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.own(Lane{0, 1})
	var list []Message
	for p := range int64(8) {
		list = append(list, msg(p+1, ""))
	}
	r.claimed(list...)
	r.step(Answered{Batch: take[Publish](r).Batch})
	stored := 0
	for range 10 {
		s := take[Settle](r)
		if slices.ContainsFunc(s.Settlements, func(st Settlement) bool { return st.Message.Position == 3 }) {
			r.step(SettleFailed{Refused: true, Err: errTest})
		} else {
			stored += len(s.Settlements)
			r.step(Settled{})
		}
		if stored == 7 {
			break
		}
	}
	none[Settle](r)
	if r.settler.apartCount() != 1 || r.held.count != 1 {
		t.Fatalf("%d refused and %d held, want one", r.settler.apartCount(), r.held.count)
	}
	if errs := r.Health(r.at + time.Minute); len(errs) == 0 {
		t.Error("Health() = nil after a minute")
	}
	r.pass(refusedDelay)
	take[Settle](r)
	r.step(Settled{})
	if r.settler.apartCount() != 0 || r.held.count != 0 || len(r.settler.apart) != 0 {
		t.Error("what was refused is still held")
	}
}

// TestStop: nothing new is sent or claimed, and it ends when what is in flight is settled.
func TestStop(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.BatchSize, c.Parallel = 1, 1 })
	r.own(Lane{0, 1})
	r.claimed(msg(1, "k"), msg(2, "k"))
	b := take[Publish](r).Batch
	r.step(Stop{})
	if r.Done() {
		t.Fatal("Done() with a batch in flight")
	}
	r.step(Answered{Batch: b})
	none[Publish](r)
	take[Settle](r)
	if r.Done() {
		t.Fatal("Done() with a settlement in flight")
	}
	r.step(Settled{})
	if !r.Done() {
		t.Errorf("%d held after the stop", r.held.count)
	}
}

// TestStep_Repeats: the same events give the same commands.
func TestStep_Repeats(t *testing.T) {
	t.Parallel()
	run := func() string {
		r := newRig(t, func(c *Config) { c.Retry.DisableJitter = false; c.Seed = 7 })
		r.own(Lane{0, 1})
		var list []Message
		for p := range int64(50) {
			m := msg(p+1, fmt.Sprint(p%7))
			m.Tenant, m.Topic = fmt.Sprint(p%3), fmt.Sprint(p%4)
			list = append(list, m)
		}
		r.claimed(list...)
		text := ""
		for range 5 {
			b := take[Publish](r).Batch
			text += fmt.Sprint(positions(b.Messages))
			results := make([]Result, len(b.Messages))
			results[0] = Result{Err: errTest}
			r.step(Answered{Batch: b, Results: results})
			for _, st := range r.settler.waiting {
				text += fmt.Sprint(st.Message.Position, st.Outcome, st.After)
			}
		}
		return text
	}
	first := run()
	for range 20 {
		if run() != first {
			t.Fatal("another run gave other commands")
		}
	}
}
