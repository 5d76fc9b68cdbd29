package relaycore

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// TestTakeIn_InTurn: nothing becomes of a message that is not to be sent while an earlier one of its key
// is held: that one may yet have to wait, and what follows a dead letter must not pass it. One that
// nothing precedes, or without a key, has its outcome at once.
func TestTakeIn_InTurn(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Message){
		"expired":   func(m *Message) { m.Expired = true },
		"malformed": func(m *Message) { m.Malformed = errTest },
		"unrouted":  func(m *Message) { m.Routes = nil },
		"route":     func(m *Message) { m.RouteErr = errTest },
	} {
		r := newRig(t, func(c *Config) { c.Order = Park })
		r.own(Lane{0, 1})
		take[Release](r)
		r.step(Released{})
		take[Count](r)
		r.step(Counted{})
		take[Claim](r)
		r.step(Claimed{Messages: []Message{msg(1, "k")}, Full: true})
		b := take[Publish](r).Batch
		later, other, free := msg(2, "k"), msg(3, "l"), msg(4, "")
		spoil(&later)
		spoil(&other)
		spoil(&free)
		take[Claim](r)
		r.step(Claimed{Messages: []Message{later, other, free}})
		st := take[Settle](r)
		if len(st.Settlements) != 2 || st.Settlements[0].Message.Position != 3 || st.Settlements[1].Message.Position != 4 {
			t.Errorf("%s: settled %+v while an earlier one is in flight, want those at 3 and 4", name, st.Settlements)
		}
		r.step(Settled{})
		none[Settle](r)
		r.step(Answered{Batch: b, Results: []Result{{Err: errTest, Kind: waybill.Transient}}})
		st = take[Settle](r)
		if len(st.Settlements) != 2 || st.Settlements[0].Message.Position != 1 || !st.Settlements[1].Behind {
			t.Errorf("%s: settled %+v, want the second behind the first", name, st.Settlements)
		}
	}
}

// TestReopen_WaitTheirTurn: a message that was refused waits behind an earlier one of its batch that was
// not answered and goes back to the store with it. By itself it would be due while that one waits.
func TestReopen_WaitTheirTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.own(Lane{0, 1})
	r.claimed(msg(1, "k"), msg(2, "k"), msg(3, "k"))
	b := take[Publish](r).Batch
	r.step(Answered{Batch: b, Results: []Result{{Err: errTest, Kind: waybill.Unavailable}, {Err: errTest}, {}}})
	st := take[Settle](r).Settlements
	if len(st) != 3 || st[0].Message.Position != 2 || !st[0].Behind || st[0].Attempts != 1 || st[1].Message.Position != 1 || !st[1].Behind {
		t.Errorf("settled %+v, want the second behind, the first behind and the third published", st)
	}
	r.step(Settled{})
	if len(r.lines) != 0 {
		t.Errorf("%d lines are left, want none: something stays closed", len(r.lines))
	}
	r.pass(5 * time.Second)
}

// TestResent: a message is said to be sent again if an attempt of this life may have arrived, or has failed.
func TestResent(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.own(Lane{0, 1})
	failed := msg(2, "")
	failed.Attempts = 1
	r.claimed(msg(1, ""), failed)
	b := take[Publish](r).Batch
	if b.Messages[0].Resent || !b.Messages[1].Resent {
		t.Errorf("resent %v and %v, want the one that has failed before", b.Messages[0].Resent, b.Messages[1].Resent)
	}
	unsure := Result{Err: errTest, Kind: waybill.Unavailable, Unsure: true}
	r.step(Answered{Batch: b, Results: []Result{unsure, {}}})
	r.pass(time.Second)
	if b = take[Publish](r).Batch; len(b.Messages) != 1 || !b.Messages[0].Resent {
		t.Errorf("sent %+v, want the first as sent before", b.Messages)
	}
}

// TestResent_Leaving: what is known of a message outlasts that its lane is to be released while it is in
// flight: it may be sent again before the lane goes.
func TestResent_Leaving(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	lanes := []Lane{{0, 1}, {1, 1}}
	r.own(lanes...)
	m := msg(1, "k")
	m.Lane = lanes[1]
	r.claimed(m)
	r.answer(r.sent(1), Result{Err: errTest, Kind: waybill.Unavailable, Unsure: true})
	r.pass(2*time.Second - r.at)
	b := r.sent(1)
	r.renewed(Leased{Lanes: lanes, Share: 1, Total: 2})
	r.answer(b, unavailable)
	r.pass(time.Second)
	if b = r.sent(1); !b.Messages[0].Resent {
		t.Error("the message is sent as for the first time, and may have arrived")
	}
}

// TestResent_Lost: what is known of a message in flight ends with the lease of its lane; of what is known of it
// under the next one nothing is lost.
func TestResent_Lost(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.own(Lane{0, 1})
	unsure := Result{Err: errTest, Kind: waybill.Unavailable, Unsure: true}
	r.claimed(msg(1, "k"))
	r.answer(r.sent(1), unsure)
	r.pass(2*time.Second - r.at)
	b := r.sent(1)
	r.renewed(Leased{Lanes: []Lane{{0, 2}, {1, 1}}, Share: 2, Total: 2})
	r.answer(b, unsure)
	r.rests()
	r.step(Woken{})
	m := msg(1, "k")
	m.Lane = Lane{0, 2}
	r.claimed(m)
	r.pass(time.Second)
	if b = r.sent(1); b.Messages[0].Resent {
		t.Error("what was known under the earlier lease is known")
	}
	r.answer(b, unsure)
	r.pass(2*time.Second - (r.at-4*time.Second)%(2*time.Second))
	r.renewed(Leased{Lanes: []Lane{{0, 2}}, Share: 1, Total: 2})
	r.pass(time.Second)
	if b = r.sent(1); !b.Messages[0].Resent {
		t.Error("the message is sent as for the first time, and may have arrived")
	}
}
