package storetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/schedule"
)

func scheduleTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"until it is due", scheduleUntilDue[Tx], nil},
		{"by due time", scheduleByDue[Tx], nil},
		{"limit", scheduleLimit[Tx], nil},
		{"several relays at once", scheduleAtOnce[Tx], nil},
		{"does not block its key", scheduleKey[Tx], nil},
		{"its id is in the outbox when it is due", scheduleDuplicate[Tx], nil},
		{"its id waits when it is due", scheduleDuplicateWaiting[Tx], nil},
		{"two with one id are due at once", scheduleTwins[Tx], nil},
		{"dead when it was due, and requeued", scheduleRequeued[Tx], nil},
		{"its id is held by an open transaction", scheduleIDHeld[Tx], []need{concurrentWriters}},
		{"in centuries", scheduleCenturies[Tx], nil},
		{"past the year 2038", schedulePast2038[Tx], nil},
	}
}

// release moves scheduled messages and expects a number of them.
func (e *env[Tx]) release(want int) {
	e.Helper()
	n, err := e.s.ReleaseScheduled(e.ctx, allRows)
	e.must(err, "ReleaseScheduled")
	if n != want {
		e.Fatalf("ReleaseScheduled() = %d, want %d", n, want)
	}
}

// scheduled enqueues a message that is due after a while and makes a relay schedule it.
func (n *node[Tx]) scheduled(m waybill.Message, after time.Duration) {
	n.Helper()
	m.DeliverAt = time.Now().Add(after)
	n.enqueue(m)
	n.settle(settlement(find(n.claim(), m.ID), contract.Schedule))
}

func scheduleUntilDue[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.scheduled(msg("a", "k"), time.Hour)
	n.claimOnly()
	e.release(0)
	state := e.want(inspect.Scheduled, "a")
	if state.DueAt == nil || time.Until(*state.DueAt) < 50*time.Minute || time.Until(*state.DueAt) > 70*time.Minute {
		e.Errorf("DueAt = %v, want in an hour", state.DueAt)
	}
	e.advance(2 * time.Hour)
	n.claimOnly() // due, and not yet released
	e.release(1)
	e.release(0)
	e.want(inspect.Pending, "a")
	c := n.claimOne("a")
	if c.DelayFor != 0 || c.Waiting || c.Message.Key != "k" {
		e.Errorf("claim = %+v, want an ordinary one", c)
	}
	n.settle(published(c)...)
}

func scheduleByDue[Tx any](e *env[Tx]) {
	n := e.join("r1")
	for i, after := range []time.Duration{3 * time.Hour, time.Hour, 2 * time.Hour} {
		n.scheduled(msg(fmt.Sprintf("a%d", i+1), "k"), after)
	}
	e.advance(4 * time.Hour)
	e.release(3)
	n.claimOnly("a2", "a3", "a1")
}

func scheduleLimit[Tx any](e *env[Tx]) {
	n := e.join("r1")
	for i := range 5 {
		n.scheduled(msg(fmt.Sprintf("a%d", i+1), "k"), time.Duration(i+1)*time.Minute)
	}
	e.advance(time.Hour)
	moved, err := e.s.ReleaseScheduled(e.ctx, 2)
	if err != nil || moved != 2 {
		e.Fatalf("ReleaseScheduled(2) = %d, %v", moved, err)
	}
	n.claimOnly("a1", "a2")
	e.release(3)
	n.claimOnly("a1", "a2", "a3", "a4", "a5")
}

func scheduleAtOnce[Tx any](e *env[Tx]) {
	const count = 60
	n := e.join("r1")
	list := msgs("a", "", count)
	for i := range list {
		list[i].DeliverAt = time.Now().Add(time.Hour)
	}
	e.enqueue(list...)
	var outcomes []contract.Settlement
	for _, c := range n.claim() {
		outcomes = append(outcomes, settlement(c, contract.Schedule))
	}
	n.settle(outcomes...)
	e.advance(2 * time.Hour)
	var moved atomic.Int64
	e.concurrently(4, func(int) error {
		for moved.Load() < count {
			err := repeatConflicts(func() error {
				m, err := e.s.ReleaseScheduled(e.ctx, 7)
				moved.Add(int64(m))
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if got := moved.Load(); got != count {
		e.Errorf("released %d, want %d", got, count)
	}
	e.want(inspect.Pending, ids(list)...)
}

func scheduleKey[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.scheduled(msg("a1", "k"), time.Hour)
	e.enqueue(msg("a2", "k"))
	if c := n.claimOne("a2"); c.Blocked {
		e.Error("a2 is blocked by a scheduled message of its key")
	}
}

// wantRefused checks that one message with the id is claimed and one is a dead letter.
func (n *node[Tx]) wantRefused(id string) {
	n.Helper()
	l := n.letter()
	if l.Reason != waybill.ReasonDuplicateID || l.Message.ID != id || l.Origin != deadletter.FromRelay || l.Error == "" {
		n.Errorf("letter = %+v, want %s with the reason duplicate_id", l, id)
	}
	n.wantCount(id, 2)
	n.claimOne(id)
}

func scheduleDuplicate[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.scheduled(msg("a", "k"), time.Hour)
	e.enqueue(msg("a", "k"))
	e.advance(2 * time.Hour)
	e.release(1)
	n.wantRefused("a")
}

func scheduleDuplicateWaiting[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.scheduled(msg("a", "k"), time.Hour)
	e.enqueue(msg("a", "k"))
	n.settle(failed(n.claimOne("a"), 0))
	e.advance(2 * time.Hour)
	e.release(1)
	n.wantRefused("a")
}

func scheduleTwins[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.scheduled(msg("a", "k"), time.Hour)
	n.scheduled(msg("a", "k"), time.Hour)
	e.wantCount("a", 2)
	e.advance(2 * time.Hour)
	e.release(2)
	n.wantRefused("a")
}

func scheduleRequeued[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.scheduled(msg("a", "k"), time.Hour)
	e.advance(2 * time.Hour)
	e.release(1)
	n.settle(dead(n.claimOne("a")))
	e.requeue(e.letter().Number, true)
	c := n.claimOne("a")
	if c.DelayFor != 0 {
		e.Errorf("DelayFor = %v, want 0", c.DelayFor)
	}
	n.settle(published(c)...)
}

// scheduleCenturies: the last time that a message may have is further ahead than a
// [time.Duration] reaches.
func scheduleCenturies[Tx any](e *env[Tx]) {
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	n := e.join("r1")
	later, lasting := msg("later", "k"), msg("lasting", "j")
	later.DeliverAt, lasting.ExpiresAt = last, last
	n.enqueue(later, lasting)
	claims := n.claimOnly("later", "lasting")
	if c := find(claims, "later"); c.DelayFor < 200*365*24*time.Hour {
		e.Errorf("DelayFor of a message for the year 9999 = %v, want centuries", c.DelayFor)
	}
	if c := find(claims, "lasting"); c.Expired || c.ExpiresIn < 200*365*24*time.Hour {
		e.Errorf("ExpiresIn of a message until the year 9999 = %v, expired %v, want centuries", c.ExpiresIn, c.Expired)
	}
	n.settle(settlement(find(claims, "later"), contract.Schedule))
	e.release(0)
	e.want(inspect.Scheduled, "later")
}

// schedulePast2038: seconds since 1970 need more than 31 bits by the store's clock.
func schedulePast2038[Tx any](e *env[Tx]) {
	const years = 14 * 365 * 24 * time.Hour
	e.advance(years)
	n := e.join("r1")
	later := msg("later", "k")
	later.DeliverAt = time.Now().Add(years + time.Hour)
	n.enqueue(later)
	c := n.claimOne("later")
	if c.DelayFor < 50*time.Minute || c.DelayFor > time.Hour+time.Second { // a clock may have a resolution of milliseconds
		e.Errorf("DelayFor = %v, want about an hour", c.DelayFor)
	}
	n.settle(settlement(c, contract.Schedule))
	e.release(0)
	e.advance(2 * time.Hour)
	e.release(1)
	n.settle(failed(n.claimOne("later"), time.Hour))
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOne("later"))...)
	if at := e.want(inspect.Published, "later").PublishedAt; at.Year() < 2039 {
		e.Errorf("published at %v, want it after 2038", at)
	}
}

// scheduleIDHeld: a transaction that stays open enqueues messages with the ids of two that are due.
func scheduleIDHeld[Tx any](e *env[Tx]) {
	n := e.join("r1")
	for i, id := range []string{"a", "held1", "held2", "b", "c"} {
		m, after := msg(id, ""), time.Duration(i+1)*time.Minute
		if !e.h.Features.Schedules {
			n.scheduled(m, after)
			continue
		}
		m.DeliverAt = time.Now().Add(after) // not by way of the outbox: InnoDB locks around a row just deleted there
		e.tx(func(tx Tx) error { _, err := e.s.(schedule.Store[Tx]).AddScheduled(e.ctx, tx, &m); return err })
	}
	e.advance(time.Hour)
	tx := e.begin()
	e.enqueueIn(tx, false, msg("held1", ""), msg("held2", ""))
	e.release(3)
	n.claimOnly("a", "b", "c")
	e.rollback(tx)
	e.advance(time.Minute)
	e.release(2)
	n.claimOnly("a", "b", "c", "held1", "held2")
}
