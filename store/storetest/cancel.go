package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/outbox"
)

func cancelTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"pending", cancelPending[Tx], nil},
		{"waits for a retry", cancelRetry[Tx], nil},
		{"with DeliverAt", cancelDeliverAt[Tx], nil},
		{"the first and the middle of a key", cancelOfKey[Tx], nil},
		{"behind a letter that parks", cancelParked[Tx], nil},
		{"claimed, whatever becomes of it", cancelClaimed[Tx], nil},
		{"claimed while it waited", cancelClaimedWaiting[Tx], nil},
		{"for some destinations published", cancelDestinations[Tx], nil},
		{"published, dead, unknown", cancelNothing[Tx], nil},
		{"the same id of another source or tenant", cancelIdentity[Tx], nil},
		{"by several at once", cancelAtOnce[Tx], nil},
		{"while relays work", cancelRacing[Tx], nil},
		{"restored and requeued", cancelRestored[Tx], nil},
		{"enqueued again", cancelAgain[Tx], nil},
		{"in a transaction", cancelInTx[Tx], nil},
		{"in a transaction that sees it moved", cancelMoved[Tx], []need{concurrentWriters}},
		{"without a transaction", cancelWithoutTx[Tx], nil},
		{"words that can't be stored", cancelWords[Tx], nil},
	}
}

func ofShop(id string) outbox.Identity {
	m := msg(id, "")
	return outbox.IdentityOf(&m)
}

// cancel cancels a message for an operator, and expects that it is removed from a number of places.
func (e *env[Tx]) cancel(id string, removed int, inFlight bool) {
	e.Helper()
	e.wantCancelled(id, outbox.Cancellation{Removed: removed, InFlight: inFlight}, func() (outbox.Cancellation, error) {
		return e.s.CancelMessage(e.ctx, ofShop(id), by)
	})
}

func (e *env[Tx]) wantCancelled(id string, want outbox.Cancellation, cancel func() (outbox.Cancellation, error)) {
	e.Helper()
	var got outbox.Cancellation
	e.must(repeatConflicts(func() (err error) {
		got, err = cancel()
		return err
	}), "cancel")
	if got != want {
		e.Fatalf("cancel %s = %+v, want %+v", id, got, want)
	}
}

// wantLetter checks that a message is a discarded dead letter and that the audit log has it.
func (e *env[Tx]) wantLetter(id string) deadletter.Letter {
	e.Helper()
	e.want(inspect.Discarded, id)
	letters := e.letters(deadletter.Filter{MessageID: id, State: deadletter.Discarded})
	if len(letters) != 1 {
		e.Fatalf("discarded letters of %s: %+v, want one", id, letters)
	}
	l := e.show(letters[0].Number)
	if l.Reason != waybill.ReasonCancelled || l.Resolution != by.Why || l.ResolvedAt == nil || l.Parks || l.Fingerprint == "" || string(l.Message.Payload) != `{"id":"`+id+`"}` {
		e.Errorf("letter = %+v, want a cancelled message", l)
	}
	e.wantActs(l.Number, deadletter.ActCancelMessage)
	return l
}

func cancelPending[Tx any](e *env[Tx]) {
	e.enqueue(msgs("a", "k", 3)...)
	e.enqueue(msg("b", ""))
	e.cancel("a2", 1, false) // no relay has claimed it
	n := e.join("r1")
	n.claimOnly("a1", "a3", "b")
	e.cancel("b", 1, true)
	n.settle(published(n.claimOnly("a1", "a3")...)...)
	e.wantLetter("a2")
	e.wantLetter("b")
	e.cancel("b", 0, false)
	if open := e.letters(deadletter.Filter{}); len(open) != 0 {
		e.Errorf("open letters = %+v, want none", open)
	}
}

func cancelRetry[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"), msg("b", ""))
	claims := n.claimOnly("a", "b")
	n.settle(failed(find(claims, "a"), time.Hour), failed(find(claims, "b"), time.Hour))
	e.cancel("a", 1, false)
	e.cancel("b", 1, false)
	e.advance(2 * time.Hour)
	n.claimOnly()
	if l := e.wantLetter("a"); l.Attempts != 1 || len(l.History) != 1 {
		e.Errorf("letter = %+v, want its one attempt", l)
	}
	e.enqueue(msg("a2", "k"))
	if c := n.claimOne("a2"); c.Blocked {
		e.Error("a2 is blocked by a message that was cancelled")
	}
}

func cancelDeliverAt[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.scheduled(msg("scheduled", "k"), time.Hour)
	m := msg("pending", "k")
	m.DeliverAt = time.Now().Add(time.Hour)
	e.enqueue(m)
	c := n.claimOne("pending")
	e.cancel("pending", 1, false)
	n.settle(settlement(c, contract.Schedule)) // a late settlement
	e.cancel("scheduled", 1, false)
	e.cancel("scheduled", 0, false)
	e.advance(2 * time.Hour)
	e.release(0)
	n.claimOnly()
	e.wantLetter("scheduled")
	e.wantLetter("pending")
}

func cancelOfKey[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.blocked(time.Hour) // a1, and a2 to a5 behind it
	e.cancel("a3", 1, true)
	n.claimOnly()
	e.cancel("a1", 1, false)
	n.settle(published(n.claimOnly("a2", "a4", "a5")...)...)
	e.enqueue(msg("a6", "k"))
	if c := n.claimOne("a6"); c.Blocked {
		e.Error("a6 is blocked although nothing waits")
	}
}

func cancelParked[Tx any](e *env[Tx]) {
	n := e.join("r1")
	l := n.parked()
	e.cancel("a2", 1, true)
	n.claimOnly()
	e.want(inspect.Waiting, "a3", "a4")
	e.resolve(l.Number, true)
	n.claimOnly("a3", "a4")
}

// cancelClaimed: a late settlement of the relay finds no row, and what waited behind it goes on.
func cancelClaimed[Tx any](e *env[Tx]) {
	late := map[string]func(c contract.Claim) contract.Settlement{
		"published": func(c contract.Claim) contract.Settlement { return settlement(c, contract.Published) },
		"failed":    func(c contract.Claim) contract.Settlement { return failed(c, time.Hour) },
		"dead":      dead,
		"parking":   parking,
		"fanned":    func(c contract.Claim) contract.Settlement { return fanout(c, "x", "y") },
		"followed":  func(c contract.Claim) contract.Settlement { return publishedThen(c, "x") },
	}
	n := e.join("r1")
	for name, answer := range late {
		first, second := msg(name, "k "+name), msg(name+" 2", "k "+name)
		e.enqueue(first, second)
		claims := n.claimOnly(name, name+" 2")
		e.cancel(name, 1, true)
		n.settle(answer(find(claims, name)), behind(find(claims, name+" 2")))
		if l := e.wantLetter(name); l.Attempts != 0 {
			e.Errorf("%s: letter = %+v, want it as it was", name, l)
		}
		n.settle(published(n.claimOne(name + " 2"))...)
	}
}

func cancelClaimedWaiting[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.blocked(0)
	c := n.claimOne("a1")
	e.cancel("a1", 1, true)
	n.settle(failed(c, time.Hour)) // a late settlement
	e.wantLetter("a1")
	claims := n.claimOnly("a2", "a3", "a4", "a5")
	e.cancel("a2", 1, true)
	n.settle(failed(claims[0], time.Hour), behind(claims[1]), behind(claims[2]), behind(claims[3]))
	n.settle(published(n.claimOnly("a3", "a4", "a5")...)...)
}

func cancelDestinations[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(fanout(n.claimOne("a"), "x", "y", "z"))
	for _, c := range n.claim() {
		if c.Destination == "x" {
			n.settle(publishedThen(c, "w"))
		}
	}
	e.several("a")
	e.cancel("a", 3, true)
	n.claimOnly()
	statuses := make(map[inspect.Status]string)
	for _, s := range e.states("a") {
		statuses[s.Status] += s.Destination
	}
	if want := (map[inspect.Status]string{inspect.Published: "x", inspect.Discarded: "wyz"}); fmt.Sprint(statuses) != fmt.Sprint(want) {
		e.Errorf("the message is in %v, want %v", statuses, want)
	}
}

func cancelNothing[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("published", ""), msg("dead", ""))
	claims := n.claimOnly("published", "dead")
	n.settle(published(find(claims, "published"))[0], dead(find(claims, "dead")))
	for _, id := range []string{"published", "dead", "unknown"} {
		e.cancel(id, 0, false)
	}
	e.want(inspect.Published, "published")
	e.want(inspect.Dead, "dead")
	entries, err := e.s.AuditLog(e.ctx, deadletter.AuditFilter{})
	e.must(err, "AuditLog")
	if len(entries) != 0 {
		e.Errorf("audit log = %+v, want nothing", entries)
	}
}

func cancelIdentity[Tx any](e *env[Tx]) {
	own, source, tenant := msg("a", "own"), msg("a", "source"), msg("a", "tenant")
	source.Source, tenant.Tenant = "elsewhere", "acme"
	e.enqueue(own, source, tenant)
	e.several("a")
	e.cancel("a", 1, false)
	var left []string
	for _, c := range e.join("r1").claim() {
		left = append(left, c.Message.Key)
	}
	if len(left) != 2 || left[0] == "own" || left[1] == "own" {
		e.Errorf("left %v, want those of the other source and tenant", left)
	}
}

func cancelAtOnce[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.scheduled(msg("scheduled", "k"), time.Hour)
	n.blocked(time.Hour)
	e.enqueue(msg("pending", ""))
	for _, id := range []string{"scheduled", "a1", "pending"} {
		e.wantOnce("cancel "+id, func() (bool, error) {
			c, err := e.s.CancelMessage(e.ctx, ofShop(id), by)
			return c.Removed == 1, err
		})
		e.wantLetter(id)
	}
	n.claimOnly("a2", "a3", "a4", "a5")
}

// cancelRacing: each message is published or cancelled, and nothing is left behind.
func cancelRacing[Tx any](e *env[Tx]) {
	const keys, each = 3, 8
	n := e.join("r1")
	var all []waybill.Message
	for k := range keys {
		list := msgs(fmt.Sprintf("%c", 'a'+k), fmt.Sprintf("k%d", k), each)
		list[each/2].DeliverAt = time.Now().Add(time.Hour)
		e.enqueue(list...)
		all = append(all, list...)
	}
	e.concurrently(2, func(i int) error {
		if i == 0 {
			return n.muddle(keys * each)
		}
		for j := 0; j < len(all); j += 2 {
			err := repeatConflicts(func() error {
				_, err := e.s.CancelMessage(e.ctx, ofShop(all[j].ID), by)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	e.advance(2 * time.Hour)
	for {
		released, err := e.s.ReleaseScheduled(e.ctx, allRows)
		e.must(err, "ReleaseScheduled")
		if len(n.publishAll()) == 0 && released == 0 {
			break
		}
	}
	for i, m := range all {
		states := e.states(m.ID)
		if len(states) != 1 || states[0].Status != inspect.Published && (i%2 == 1 || states[0].Status != inspect.Discarded) {
			e.Errorf("%s is in %s, want it published or, if it was to be, cancelled", m.ID, places(states))
		}
	}
}

// muddle settles what may be sent in several ways, a number of times: each first claim of a key
// fails, and what is behind it waits.
func (n *node[Tx]) muddle(times int) error {
	for range times {
		claims, err := n.s.ClaimMessages(n.ctx, contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: allRows, Due: true, Again: numbers(n.lease.Lanes)})
		if err != nil {
			return err
		}
		var list []contract.Settlement
		first := make(map[string]bool)
		for _, c := range claims {
			switch {
			case c.DelayFor > 0:
				list = append(list, settlement(c, contract.Schedule))
			case first[c.Message.Key]:
				list = append(list, behind(c))
			case c.Attempts == 0:
				first[c.Message.Key] = true
				list = append(list, failed(c, 0))
			default:
				list = append(list, settlement(c, contract.Published))
			}
		}
		err = repeatConflicts(func() error {
			_, err := n.s.SettleMessages(n.ctx, contract.SettleRequest{Node: n.name, Archive: true, Settlements: list})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func cancelRestored[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	e.cancel("a", 1, true)
	number := e.wantLetter("a").Number
	e.change(e.s.RestoreDeadLetter, number, true)
	e.want(inspect.Dead, "a")
	e.requeue(number, true)
	n.settle(failed(n.claimOne("a"), time.Hour))
	e.cancel("a", 1, false)
	if l := e.letters(deadletter.Filter{State: deadletter.Discarded}); len(l) != 1 || l[0].Number != number || l[0].Requeues != 1 {
		e.Errorf("letters = %+v, want the one of before", l)
	}
	e.change(e.s.RestoreDeadLetter, number, true)
	e.requeue(number, true)
	n.settle(published(n.claimOne("a"))...)
}

// cancelAgain: the id is free, and each of its messages is cancelled separately.
func cancelAgain[Tx any](e *env[Tx]) {
	e.enqueue(msg("a", "k"))
	e.cancel("a", 1, false)
	number := e.wantLetter("a").Number
	e.change(e.s.RestoreDeadLetter, number, true)
	e.enqueue(msg("a", "k"))
	e.cancel("a", 1, false)
	if l := e.letter(); l.Number != number {
		e.Errorf("open letter = %+v, want the first one, which was restored", l)
	}
	n := e.join("r1")
	n.scheduled(msg("b", "k"), time.Hour)
	e.enqueue(msg("b", "k"))
	e.cancel("b", 2, true)
	n.claimOnly()
	if isNew := e.transact(true, msg("c", "")); !isNew[0] {
		e.Error("c is a duplicate")
	}
	e.cancel("c", 1, true)
	if isNew := e.transact(true, msg("c", "")); isNew[0] {
		e.Error("c is new although its id is remembered")
	}
}

func cancelInTx[Tx any](e *env[Tx]) {
	n := e.join("r1")
	w, err := outbox.NewWriter(e.s, outbox.Config{Source: "shop"})
	e.must(err, "NewWriter")
	n.scheduled(msg("reminder", ""), time.Hour)
	n.blocked(time.Hour)
	cancel := func(tx Tx, ids ...string) {
		e.Helper()
		for _, id := range ids {
			c, err := w.Cancel(e.ctx, tx, outbox.Identity{ID: id})
			if err != nil || c != (outbox.Cancellation{Removed: 1}) {
				e.Fatalf("Cancel(%s) = %+v, %v", id, c, err)
			}
		}
	}
	tx := e.begin()
	cancel(tx, "reminder", "a1")
	e.rollback(tx)
	e.want(inspect.Scheduled, "reminder")
	e.want(inspect.Waiting, "a1")
	n.claimOnly()

	tx = e.begin()
	e.effect(tx, "paid")
	e.enqueueIn(tx, false, msg("own", ""))
	cancel(tx, "reminder", "a1")
	cancelled, err := w.Cancel(e.ctx, tx, outbox.Identity{ID: "own"})
	if err != nil || cancelled.Removed != 1 {
		e.Errorf("Cancel() of what the transaction has enqueued = %+v, %v", cancelled, err)
	}
	again, err := w.Cancel(e.ctx, tx, outbox.Identity{ID: "reminder"})
	if err != nil || again.Removed != 0 {
		e.Errorf("Cancel() again = %+v, %v, want nothing", again, err)
	}
	e.commit(tx)
	e.wantEffects("paid", 1)
	if s := e.want(inspect.Discarded, "reminder", "a1", "own"); s.Error == "" {
		e.Errorf("state = %+v, want that it says why", s)
	}
	n.claimOnly("a2", "a3", "a4", "a5")
	e.advance(2 * time.Hour)
	e.release(0)
}

// cancelMoved: a message that another process moves while a transaction is open is cancelled, or
// the transaction fails.
func cancelMoved[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	tx := e.begin()
	e.effect(tx, "looked")
	n.settle(failed(n.claimOne("a"), time.Hour))
	c, err := e.s.CancelEnqueued(e.ctx, tx, ofShop("a"))
	if waybill.IsConflict(err) {
		e.rollback(tx)
		e.cancel("a", 1, false)
	} else {
		e.must(err, "CancelEnqueued")
		e.commit(tx)
		if c.Removed != 1 {
			e.Errorf("CancelEnqueued() = %+v, want it removed from where it is", c)
		}
	}
	e.want(inspect.Discarded, "a")
	e.advance(2 * time.Hour)
	n.claimOnly()
}

func cancelWithoutTx[Tx any](e *env[Tx]) {
	var none Tx
	e.enqueue(msg("a", "k"))
	_, err := e.s.CancelEnqueued(e.ctx, none, ofShop("a"))
	e.wantNoTx("CancelEnqueued", err)
	e.want(inspect.Pending, "a")
}

func cancelWords[Tx any](e *env[Tx]) {
	e.enqueue(msg("a", "k"))
	var invalid *waybill.InvalidError
	for id, act := range map[outbox.Identity]deadletter.Act{
		ofShop("a"):    {},
		ofShop("b"):    {By: "\xff"},
		{}:             by,
		ofShop("\x00"): by,
	} {
		if _, err := e.s.CancelMessage(context.WithoutCancel(e.ctx), id, act); !errors.As(err, &invalid) {
			e.Errorf("CancelMessage(%+v, %+v) = %v, want an InvalidError", id, act, err)
		}
	}
	e.want(inspect.Pending, "a")
}
