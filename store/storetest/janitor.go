package storetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/janitor"
)

func janitorTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"nothing to do", purgeNothing[Tx], nil},
		{"inbox records past their retention", purgeInbox[Tx], nil},
		{"counted first, removed in batches", purgeBatches[Tx], nil},
		{"one tenant", purgeTenant[Tx], nil},
		{"records of dead letters go with the letter", purgeDeadRecords[Tx], nil},
		{"a record that was requeued and processed", purgeRevived[Tx], nil},
		{"attempts at what did not come back", purgeAttempts[Tx], nil},
		{"letters since their last failure", purgeLetters[Tx], nil},
		{"settled letters since that", purgeSettled[Tx], nil},
		{"a letter that messages wait behind", purgeParking[Tx], nil},
		{"a letter that is pending", purgeRequeued[Tx], nil},
		{"audit log", purgeAudit[Tx], nil},
		{"messages that are not published", purgeUnfinished[Tx], nil},
		{"two at once", purgeAtOnce[Tx], nil},
		{"rows of no kind", purgeUnknown[Tx], nil},
	}
}

const (
	week   = 7 * 24 * time.Hour
	minute = time.Minute
)

var allKinds = []janitor.Kind{janitor.Inbox, janitor.Attempts, janitor.Leases, janitor.Letters, janitor.Sagas, janitor.Audit, janitor.Responses}

// purge removes rows in batches of 100 and expects want of them to be removed.
func (e *env[Tx]) purge(rows janitor.Rows, want int64) {
	e.Helper()
	var done janitor.Purged
	e.must(repeatConflicts(func() (err error) {
		done, err = janitor.Purge(e.ctx, e.s, rows, 100)
		return err
	}), "Purge")
	if done.Deleted != want || done.Candidates != want || done.Busy {
		e.Fatalf("Purge(%+v) = %+v, want %d found and deleted", rows, done, want)
	}
}

// purgeOld removes what is older than a week.
func (e *env[Tx]) purgeOld(kind janitor.Kind, want int64) {
	e.Helper()
	e.purge(janitor.Rows{Kind: kind, OlderThan: week}, want)
}

func (e *env[Tx]) processAll(consumer string, list ...waybill.Message) {
	e.Helper()
	for _, m := range list {
		e.process(consumer, m, inbox.Processed)
	}
}

func purgeNothing[Tx any](e *env[Tx]) {
	for _, kind := range allKinds {
		e.purgeOld(kind, 0)
	}
}

func purgeInbox[Tx any](e *env[Tx]) {
	e.processAll("billing", msg("old", "k"))
	e.advance(week - minute)
	e.processAll("billing", msg("new", "k"))
	e.purgeOld(janitor.Inbox, 0)
	e.advance(2 * minute)
	e.purgeOld(janitor.Inbox, 1)
	e.process("billing", msg("new", "k"), inbox.Duplicate)
	e.process("billing", msg("old", "k"), inbox.Processed)
}

func purgeBatches[Tx any](e *env[Tx]) {
	e.processAll("billing", msgs("m", "k", 7)...)
	e.advance(week + minute)
	rows := janitor.Rows{Kind: janitor.Inbox, OlderThan: week}
	for range 2 {
		if found, err := janitor.Count(e.ctx, e.s, rows); err != nil || found != (janitor.Purged{Candidates: 7}) {
			e.Fatalf("Count() = %+v, %v, want 7 candidates, and nothing removed", found, err)
		}
	}
	var n int64
	e.must(repeatConflicts(func() (err error) {
		n, err = e.s.PurgeExpired(e.ctx, rows, 3)
		return err
	}), "PurgeExpired")
	if n != 3 {
		e.Errorf("PurgeExpired() = %d, want the limit, 3", n)
	}
	var done janitor.Purged
	e.must(repeatConflicts(func() (err error) {
		done, err = janitor.Purge(e.ctx, e.s, rows, 3)
		return err
	}), "Purge")
	if want := (janitor.Purged{Candidates: 4, Deleted: 4, Batches: 2}); done != want {
		e.Errorf("Purge() = %+v, want %+v", done, want)
	}
}

func purgeTenant[Tx any](e *env[Tx]) {
	of := func(tenant, id string) waybill.Message {
		m := msg(id, "k")
		m.Tenant = tenant
		return m
	}
	e.processAll("billing", of("north", "a"), of("north", "b"), of("south", "a"))
	e.bury("billing", of("north", "c"))
	e.bury("billing", of("south", "c"))
	for _, tenant := range []string{"north", "south"} {
		m := of(tenant, "d")
		e.saveAttempt(inbox.KeyOf("billing", &m), 1, time.Second)
	}
	e.advance(week + minute)
	var n int64
	e.must(repeatConflicts(func() (err error) {
		n, err = janitor.PurgeInbox(e.ctx, e.s, "north", week)
		return err
	}), "PurgeInbox")
	if n != 2 {
		e.Errorf("PurgeInbox() = %d, want 2", n)
	}
	e.process("billing", of("south", "a"), inbox.Duplicate)
	e.purge(janitor.Rows{Kind: janitor.Letters, OlderThan: week, Tenant: "north"}, 1)
	e.purge(janitor.Rows{Kind: janitor.Attempts, OlderThan: week, Tenant: "north"}, 1)
	if l := e.letter(); l.Message.Tenant != "south" {
		e.Errorf("letter = %+v, want that of the other tenant", l)
	}
	for _, kind := range []janitor.Kind{janitor.Inbox, janitor.Letters, janitor.Attempts} {
		e.purgeOld(kind, 1)
	}
}

func purgeDeadRecords[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	e.bury("billing", m)
	e.processAll("shipping", m)
	e.advance(week + minute)
	e.bury("billing", msg("b", "k"))
	e.purgeOld(janitor.Inbox, 1)
	e.process("billing", m, inbox.Dead)
	e.process("shipping", m, inbox.Processed)
	e.purgeOld(janitor.Letters, 1)
	e.process("billing", m, inbox.Processed) // its record is gone
	e.process("shipping", m, inbox.Duplicate)
	e.process("billing", msg("b", "k"), inbox.Dead)
}

func purgeRevived[Tx any](e *env[Tx]) {
	e.bury("billing", msg("a", "k"))
	e.advance(week + minute)
	e.requeue(e.letter().Number, true)
	e.wantRun("billing", true)
	e.purgeOld(janitor.Inbox, 0) // it was processed just now
	e.advance(week + minute)
	e.purgeOld(janitor.Inbox, 1)
}

func purgeAttempts[Tx any](e *env[Tx]) {
	lost, waits := keyOf("billing", "a"), keyOf("billing", "b")
	e.saveAttempt(lost, 3, time.Hour)
	e.saveAttempt(waits, 2, 2*week)
	e.advance(week + minute)
	e.purgeOld(janitor.Attempts, 0)
	e.advance(time.Hour)
	e.purgeOld(janitor.Attempts, 1)
	e.wantAttempts(lost, 0)
	e.wantAttempts(waits, 2)
}

func purgeLetters[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(dead(n.claimOne("a")))
	e.bury("billing", msg("b", "k"))
	e.buryWithoutKey("billing", msg("", "k"))
	e.requeue(e.letterOf("b"), true)
	e.advance(week - minute)
	if found, err := e.run("billing", fmt.Errorf("still no such customer")); !found || err == nil {
		e.Fatalf("RunRequeued() = %v, %v, want the handler's error", found, err)
	}
	e.advance(2 * minute)
	e.purgeOld(janitor.Letters, 2)
	if l := e.letter(); l.Message.ID != "b" {
		e.Errorf("letter = %+v, want the one that has failed again", l)
	}
	e.gone("a")
	e.wantNowhere("a")
	e.advance(week)
	e.purgeOld(janitor.Letters, 1)
	entries := e.audit(deadletter.AuditFilter{Action: deadletter.ActCleanup})
	if len(entries) != 2 || entries[0].By != "janitor" || entries[1].Detail != "2 letters" {
		e.Errorf("audit log = %+v, want an entry of each clean-up", entries)
	}
}

func purgeSettled[Tx any](e *env[Tx]) {
	e.bury("billing", msg("a", "k"))
	e.bury("billing", msg("b", "k"))
	e.advance(week - minute)
	e.resolve(e.letterOf("a"), true)
	e.discard(e.letterOf("b"), true)
	e.advance(2 * minute)
	e.purgeOld(janitor.Letters, 0)
	e.process("billing", msg("a", "k"), inbox.Dead)
	e.advance(week)
	e.purgeOld(janitor.Letters, 2)
}

func purgeParking[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("lonely", "other"))
	n.settle(parking(n.claimOne("lonely")))
	e.gone("lonely")
	e.enqueue(msgs("a", "k", 2)...)
	claims := n.claimOnly("a1", "a2")
	n.settle(parking(claims[0]), behind(claims[1]))
	e.advance(week + minute)
	e.purgeOld(janitor.Letters, 1) // nothing waits behind the lonely one
	e.want(inspect.Dead, "a1")
	e.resolve(e.letter().Number, true)
	n = e.join("r2")
	n.settle(published(n.claimOne("a2"))...)
	e.purgeOld(janitor.Letters, 0)
	e.advance(week + minute)
	e.purgeOld(janitor.Letters, 1)
	e.gone("a1")
	n = e.join("r3")
	e.enqueue(msg("next", "other")) // the key of the lonely one is free
	if c := n.claimOne("next"); c.Blocked {
		e.Error("a key is parked by a letter that is gone")
	}
}

func purgeRequeued[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(dead(n.claimOne("a")))
	e.bury("billing", msg("b", "k"))
	for _, l := range e.letters(deadletter.Filter{}) {
		e.requeue(l.Number, true)
	}
	e.advance(week + minute)
	for _, kind := range allKinds[:3] {
		e.purgeOld(kind, 0)
	}
	e.join("r2").claimOne("a")
	e.wantRun("billing", true)
}

func purgeAudit[Tx any](e *env[Tx]) {
	e.bury("billing", msg("a", "k"))
	e.bury("billing", msg("b", "k"))
	e.resolve(e.letterOf("a"), true)
	e.advance(week + minute)
	e.purge(janitor.Rows{Kind: janitor.Audit, OlderThan: week, Tenant: waybill.DefaultTenant}, 0)
	e.resolve(e.letterOf("b"), true)
	before := e.audit(deadletter.AuditFilter{})
	e.purgeOld(janitor.Audit, 1)
	after := e.audit(deadletter.AuditFilter{})
	if len(before) != 2 || len(after) != 1 || after[0] != before[0] {
		e.Errorf("entries = %+v, before %+v, want the newest of two", after, before)
	}
}

func purgeUnfinished[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("waiting", "a"), msg("later", "b"))
	n.settle(failed(n.claimOnly("waiting", "later")[0], 4*week))
	e.enqueue(msg("pending", "c"))
	e.advance(3 * week)
	for _, kind := range allKinds {
		e.purgeOld(kind, 0)
	}
	e.want(inspect.Waiting, "waiting")
	e.want(inspect.Pending, "pending", "later")
}

// The work of one is not repeated by the other, and neither waits for the other.
func purgeAtOnce[Tx any](e *env[Tx]) {
	e.processAll("billing", msgs("m", "k", 40)...)
	for _, m := range msgs("d", "k", 20) {
		e.bury("billing", m)
	}
	e.advance(week + minute)
	var deleted, letters atomic.Int64
	e.concurrently(4, func(int) error {
		return repeatConflicts(func() error {
			done, err := janitor.Purge(e.ctx, e.s, janitor.Rows{Kind: janitor.Inbox, OlderThan: week}, 3)
			deleted.Add(done.Deleted)
			if err != nil {
				return err
			}
			done, err = janitor.Purge(e.ctx, e.s, janitor.Rows{Kind: janitor.Letters, OlderThan: week}, 3)
			letters.Add(done.Deleted)
			return err
		})
	})
	if deleted.Load() != 40 || letters.Load() != 20 {
		e.Errorf("%d records and %d letters were deleted in all, want 40 and 20", deleted.Load(), letters.Load())
	}
}

func purgeUnknown[Tx any](e *env[Tx]) {
	rows := janitor.Rows{Kind: "outbox", OlderThan: week}
	if _, err := e.s.CountExpired(e.ctx, rows); err == nil {
		e.Error("CountExpired() of the outbox is no error")
	}
	if _, err := e.s.PurgeExpired(e.ctx, rows, 1); err == nil {
		e.Error("PurgeExpired() of the outbox is no error")
	}
	if _, err := janitor.Purge(e.ctx, e.s, janitor.Rows{Kind: janitor.Inbox}, 1); err == nil {
		e.Error("Purge() of all that there is is no error")
	}
	if _, err := janitor.PurgeInbox(e.ctx, e.s, "", week); err == nil {
		e.Error("PurgeInbox() of no tenant is no error")
	}
}
