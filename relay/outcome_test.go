package relay

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

func testPolicy(t *testing.T) policy {
	t.Helper()
	retry, err := waybill.RetryPolicy{DisableJitter: true}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return policy{retry: retry, followers: []string{"after"}, follows: func(string, *waybill.Message) bool { return true }}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	base := errors.New("base")
	for _, tt := range []struct {
		name     string
		attempts int
		err      error
		want     Settlement // Outcome, Attempts, After, Life, Reason
		stays    bool
	}{
		{name: "accepted", want: Settlement{Outcome: Published}},
		{name: "first failure", err: base, want: Settlement{Outcome: Wait, Attempts: 1, After: time.Second}},
		{name: "fifth failure", attempts: 4, err: base, want: Settlement{Outcome: Wait, Attempts: 5, After: 16 * time.Second}},
		{name: "sixth failure", attempts: 5, err: base, want: Settlement{Outcome: Dead, Attempts: 6, Reason: waybill.ReasonExhausted}},
		{name: "permanent", err: waybill.PermanentError(waybill.ReasonTooLarge, base), want: Settlement{Outcome: Dead, Attempts: 1, Reason: waybill.ReasonTooLarge}},
		{name: "reaches nobody", err: waybill.PermanentError(waybill.ReasonUnroutable, base), want: Settlement{Outcome: Wait, Attempts: 1, After: time.Second}},
		{name: "reaches nobody in the end", attempts: 5, err: waybill.PermanentError(waybill.ReasonUnroutable, base), want: Settlement{Outcome: Dead, Attempts: 6, Reason: waybill.ReasonUnroutable}},
		{name: "unavailable counts nothing", attempts: 3, err: waybill.UnavailableError(base), stays: true},
		{name: "retry after counts nothing", attempts: 3, err: waybill.RetryAfter(7*time.Second, base), want: Settlement{Outcome: Wait, Attempts: 3, After: 7 * time.Second}},
		{name: "conflict counts nothing", attempts: 3, err: waybill.ConflictError(base), want: Settlement{Outcome: Wait, Attempts: 3, After: time.Second}},
		{name: "swallowed begins a new life", err: waybill.ErrSwallowed, want: Settlement{Outcome: Wait, Life: 1}},
	} {
		p := testPolicy(t)
		c := &Claim{Message: waybill.Message{ID: "m"}, Attempts: tt.attempts}
		got, settled := p.settle(result{claim: c, err: tt.err, took: time.Second, sent: true})
		if settled == tt.stays {
			t.Errorf("%s: settled = %v", tt.name, settled)
			continue
		}
		if tt.stays {
			continue
		}
		if got.Outcome != tt.want.Outcome || got.Attempts != tt.want.Attempts || got.After != tt.want.After || got.Life != tt.want.Life || got.Reason != tt.want.Reason || got.Took != time.Second {
			t.Errorf("%s: settlement = %+v, want %+v", tt.name, got, tt.want)
		}
		if follow := slices.Equal(got.Destinations, []string{"after"}); follow != (tt.err == nil) {
			t.Errorf("%s: followed by %v", tt.name, got.Destinations)
		}
	}
}

func TestPolicy_FollowerIsNotFollowed(t *testing.T) {
	t.Parallel()
	p := testPolicy(t)
	p.followers = append(p.followers, "too") // nor by another one
	if got, _ := p.settle(result{claim: &Claim{Destination: "after"}}); len(got.Destinations) != 0 {
		t.Errorf("a follower's own message is followed by %v", got.Destinations)
	}
}

func TestPolicy_DeadLettersDisabled(t *testing.T) {
	t.Parallel()
	p := testPolicy(t)
	p.failed = true
	if got, _ := p.settle(result{claim: &Claim{Attempts: 5}, err: errors.New("x")}); got.Outcome != Failed {
		t.Errorf("outcome = %v, want Failed", got.Outcome)
	}
}

func TestOutlet_FindsTheMessageThatKills(t *testing.T) {
	t.Parallel()
	o := newOutlet(Destination{Publisher: killer{"bad"}}, time.Second)
	good, bad := &Claim{Message: waybill.Message{ID: "good"}, Position: 1}, &Claim{Message: waybill.Message{ID: "bad"}, Position: 2}
	for range lossLimit {
		for _, err := range o.send(t.Context(), []*Claim{good, bad}, false) {
			if !errors.Is(err, waybill.ErrConnectionLost) {
				t.Fatalf("send() = %v, want the connection lost", err)
			}
		}
	}
	if !o.suspicious(1) || !o.suspicious(2) {
		t.Fatal("both messages should be sent alone now")
	}
	if errs := o.send(t.Context(), []*Claim{good}, true); errs[0] != nil {
		t.Errorf("the innocent one alone: %v", errs[0])
	}
	if errs := o.send(t.Context(), []*Claim{bad}, true); !waybill.IsUnavailable(errs[0]) {
		t.Errorf("the first time alone: %v, want it tried again", errs[0])
	}
	if errs := o.send(t.Context(), []*Claim{bad}, true); !waybill.IsUnavailable(errs[0]) {
		t.Errorf("alone again, with nothing accepted in between: %v, want it tried again", errs[0])
	}
	if errs := o.send(t.Context(), []*Claim{good}, false); errs[0] != nil {
		t.Errorf("another one: %v", errs[0])
	}
	if errs := o.send(t.Context(), []*Claim{bad}, true); waybill.ReasonOf(errs[0]) != waybill.ReasonPoison {
		t.Errorf("the second time alone: %v, want poison", errs[0])
	}
	if o.suspicious(1) || len(o.losses) != 0 || len(o.doubts) != 0 {
		t.Error("the outlet remembers messages that are done with")
	}
}

// TestOutlet_DoesNotBlameOneMessageForAFailingBroker: while nothing gets through, a lost
// connection says nothing about the message that was on it, however often.
func TestOutlet_DoesNotBlameOneMessageForAFailingBroker(t *testing.T) {
	t.Parallel()
	o := newOutlet(Destination{Publisher: killer{"only"}}, time.Second)
	only, other := &Claim{Message: waybill.Message{ID: "only"}, Position: 1}, &Claim{Position: 2}
	o.send(t.Context(), []*Claim{other}, false) // accepted before the outage
	for range lossLimit {
		o.send(t.Context(), []*Claim{only}, false)
	}
	for try := range 1000 {
		if errs := o.send(t.Context(), []*Claim{only}, true); !waybill.IsUnavailable(errs[0]) {
			t.Fatalf("try %d: %v, want it tried again", try, errs[0])
		}
	}
	o.send(t.Context(), []*Claim{other}, false) // and one after it
	if errs := o.send(t.Context(), []*Claim{only}, true); !waybill.IsUnavailable(errs[0]) {
		t.Errorf("the first time after the outage: %v, want it tried again", errs[0])
	}
}

// TestOutlet_LateAnswersAreNoProof: what was sent before the connection was lost, and is known to
// be accepted only afterwards, does not show that the broker is well.
func TestOutlet_LateAnswersAreNoProof(t *testing.T) {
	t.Parallel()
	o := newOutlet(Destination{}, time.Second)
	lost := waybill.UnavailableError(waybill.ErrConnectionLost)
	late, bad := []*Claim{{Position: 1}}, []*Claim{{Position: 2}}
	_, first := o.outgoing(late)
	_, second := o.outgoing(bad)
	o.learn(bad[0], lost, second, false)
	o.learn(late[0], nil, first, false)
	_, third := o.outgoing(bad)
	o.learn(bad[0], lost, third, true)
	if n := o.losses[2].blamed; n != 0 {
		t.Errorf("%d lost connections speak against the message, want none", n)
	}
}

func TestBreaker_PausesDouble(t *testing.T) {
	t.Parallel()
	var b breaker
	first := b.trip()
	if second := b.trip(); second > first {
		t.Errorf("a pause during a pause is %v, more than the %v before", second, first)
	}
	b.until = time.Time{}
	if second := b.trip(); second != 2*first {
		t.Errorf("the second pause is %v, want %v", second, 2*first)
	}
	if !b.reset() || b.paused() > 0 || b.reset() {
		t.Error("reset() did not end the pause")
	}
}
