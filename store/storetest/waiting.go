package storetest

import (
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
)

func waitingTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"a failed message waits until it is due", retryWaits[Tx], nil},
		{"it waits again", retryAgain[Tx], nil},
		{"attempts and error are kept", retryKept[Tx], nil},
		{"attempts may stay", waitWithoutAttempt[Tx], nil},
		{"a new life", waitWithLife[Tx], nil},
		{"messages without a key wait for themselves", retryWithoutKey[Tx], nil},
		{"a new owner finds what waits", retryNewOwner[Tx], nil},
	}
}

func retryWaits[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	before := n.claimOne("a")
	n.settle(failed(before, time.Minute))
	n.claimOnly()
	e.advance(50 * time.Second)
	n.claimOnly()
	e.advance(20 * time.Second)
	c := n.claimOne("a")
	if !c.Waiting || c.Position != before.Position || c.Lane != before.Lane {
		e.Errorf("claim = %+v, want a waiting one at the position %d", c, before.Position)
	}
}

func retryAgain[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	for range 4 {
		n.settle(failed(n.claimOne("a"), time.Hour))
		n.claimOnly()
		e.advance(time.Hour + time.Second)
	}
	if c := n.claimOne("a"); c.Attempts != 4 {
		e.Errorf("attempts = %d, want 4", c.Attempts)
	}
}

func retryKept[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	st := failed(n.claimOne("a"), time.Hour)
	st.Error = "it broke: 'ü' \\ \" {} NULL"
	n.settle(st)
	state := e.want(inspect.Waiting, "a")
	if state.Attempts != 1 || state.Error != st.Error {
		e.Errorf("attempts, error = %d, %q, want 1, %q", state.Attempts, state.Error, st.Error)
	}
	if state.DueAt == nil || time.Until(*state.DueAt) < 50*time.Minute || time.Until(*state.DueAt) > 70*time.Minute {
		e.Errorf("DueAt = %v, want in an hour", state.DueAt)
	}
	e.advance(2 * time.Hour)
	c := n.claimOne("a")
	if c.Attempts != 1 {
		e.Errorf("attempts of the claim = %d, want 1", c.Attempts)
	}
	st = failed(c, time.Hour)
	st.Error = "it broke again"
	n.settle(st)
	if state = e.want(inspect.Waiting, "a"); state.Attempts != 2 || state.Error != st.Error {
		e.Errorf("attempts, error = %d, %q, want 2, %q", state.Attempts, state.Error, st.Error)
	}
}

func waitWithoutAttempt[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	for range 2 {
		st := settlement(n.claimOne("a"), contract.Wait)
		st.After = time.Hour
		n.settle(st)
		n.claimOnly()
		e.advance(2 * time.Hour)
	}
	if c := n.claimOne("a"); c.Attempts != 0 {
		e.Errorf("attempts = %d, want 0", c.Attempts)
	}
}

func waitWithLife[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	for life := 1; life <= 3; life++ {
		st := settlement(n.claimOne("a"), contract.Wait)
		st.Life = life
		n.settle(st)
		if c := n.claimOne("a"); c.Life != life {
			e.Errorf("life = %d, want %d", c.Life, life)
		}
	}
}

func retryWithoutKey[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "", 3)...)
	claims := n.claim()
	n.settle(failed(find(claims, "a1"), time.Hour))
	claims = n.claimOnly("a2", "a3")
	for _, c := range claims {
		if c.Blocked {
			e.Errorf("%s is blocked although it has no key", c.Message.ID)
		}
	}
	n.settle(failed(find(claims, "a2"), 0))
	n.claimOnly("a2", "a3")
}

func retryNewOwner[Tx any](e *env[Tx]) {
	old := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	claims := old.claimOnly("a1", "a2", "a3")
	old.settle(failed(claims[0], 2*longTTL), behind(claims[1]))
	n := old.supersede("r2")
	if c := n.claimOne("a3"); !c.Blocked {
		e.Error("a3 is not blocked although the messages before it wait")
	}
	e.advance(longTTL)
	claims = n.claimOnly("a1", "a3")
	n.settle(published(find(claims, "a1"))...)
	n.claimOnly("a2", "a3")
}
