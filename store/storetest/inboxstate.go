package storetest

import (
	"time"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inspect"
)

func inboxStateTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"unknown", inboxStatesNone[Tx], nil},
		{"processed", inboxStatesProcessed[Tx], nil},
		{"processed under an idempotency key", inboxStatesKey[Tx], []need{wordyInbox}},
		{"dead", inboxStatesDead[Tx], nil},
		{"failed so far", inboxStatesFailed[Tx], nil},
		{"failed, then processed", inboxStatesRetried[Tx], nil},
		{"its size", inboxSize[Tx], nil},
	}
}

// inboxStates returns what the inbox has stored and checks the consumers.
func (e *env[Tx]) inboxStates(id, consumer string, want ...string) []inspect.InboxState {
	e.Helper()
	states, err := e.s.InboxStates(e.ctx, id, consumer)
	e.must(err, "InboxStates")
	same := states != nil && len(states) == len(want)
	for i := range want {
		same = same && states[i].Consumer == want[i]
	}
	if !same {
		e.Fatalf("InboxStates(%q, %q) = %+v, want those of %v", id, consumer, states, want)
	}
	return states
}

func inboxStatesNone[Tx any](e *env[Tx]) {
	e.process("billing", msg("a", "k"), inbox.Processed)
	e.inboxStates("b", "")
	e.inboxStates("a", "shipping")
	e.inboxStates("", "")
}

func inboxStatesProcessed[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	m.Type, m.Tenant = "order.created@v2", "acme"
	e.process("shipping", m, inbox.Processed)
	e.process("billing", m, inbox.Processed)
	e.inboxStates("a", "", "billing", "shipping")
	got := e.inboxStates("a", "billing", "billing")[0]
	if got.ProcessedAt == nil || got.DeadAt != nil || got.DueAt != nil || got.Attempts != 0 {
		e.Fatalf("state = %+v, want it processed", got)
	}
	e.wantRecent("ProcessedAt", *got.ProcessedAt, 0)
	got.ProcessedAt = nil
	want := inspect.InboxState{Tenant: "acme", Consumer: "billing", Source: "shop", Alias: "order.created", Message: "a", MessageID: "a", Type: "order.created@v2"}
	if got != want {
		e.Errorf("state = %+v, want %+v", got, want)
	}
}

func inboxStatesKey[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	m.IdempotencyKey = "pay-1"
	e.process("billing", m, inbox.Processed)
	for _, id := range []string{"a", "pay-1"} {
		if got := e.inboxStates(id, "", "billing")[0]; got.Message != "pay-1" || got.MessageID != "a" {
			e.Errorf("state by %s = %+v", id, got)
		}
	}
}

func inboxStatesDead[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	e.bury("billing", m)
	got := e.inboxStates("a", "", "billing")[0]
	if got.DeadAt == nil || got.ProcessedAt != nil {
		e.Fatalf("state = %+v, want it dead", got)
	}
	e.wantRecent("DeadAt", *got.DeadAt, 0)
}

func inboxStatesFailed[Tx any](e *env[Tx]) {
	e.saveAttempt(keyOf("billing", "a"), 2, time.Hour)
	got := e.inboxStates("a", "billing", "billing")[0]
	if got.ProcessedAt != nil || got.DeadAt != nil || got.Attempts != 2 || got.Error != "card expired" || got.DueAt == nil {
		e.Fatalf("state = %+v, want 2 failed attempts", got)
	}
	e.wantRecent("DueAt", *got.DueAt, time.Hour)
}

func inboxStatesRetried[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	e.saveAttempt(keyOf("billing", "a"), 1, 0)
	e.process("billing", m, inbox.Processed) // by another replica, which knew of no attempt
	if got := e.inboxStates("a", "", "billing")[0]; got.ProcessedAt == nil || got.Attempts != 0 {
		e.Errorf("state = %+v, want it processed", got)
	}
}

// inboxSize: the number of records may be unknown, or outdated; the age of the oldest is exact.
func inboxSize[Tx any](e *env[Tx]) {
	size := func() inspect.InboxSize {
		e.Helper()
		v, err := e.s.InboxSize(e.ctx)
		e.must(err, "InboxSize")
		return v
	}
	if v := size(); v != (inspect.InboxSize{}) {
		e.Errorf("InboxSize() = %+v of an empty inbox, want nothing", v)
	}
	e.process("billing", msg("a", "k"), inbox.Processed)
	e.advance(time.Hour)
	e.bury("billing", msg("b", "k"))
	if v := size(); v.Records < -1 || (v.Oldest-time.Hour).Abs() > time.Minute {
		e.Errorf("InboxSize() = %+v, want the oldest an hour old", v)
	}
	m := msg("a", "k")
	e.h.Forget(e.T, e.s, inbox.KeyOf("billing", &m))
	if v := size(); v.Oldest > time.Minute {
		e.Errorf("InboxSize() = %+v, want that of the dead letter's record", v)
	}
}
