package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/janitor"
)

// change makes a change to a dead letter, and checks whether anything was changed.
func (e *env[Tx]) change(do func(context.Context, int64, deadletter.Act) (bool, error), number int64, want bool) {
	e.Helper()
	done, err := do(e.ctx, number, by)
	e.must(err, "change of a letter")
	if done != want {
		e.Fatalf("change of letter %d = %v, want %v", number, done, want)
	}
}

// refuses fails unless a change is refused for this reason.
func (e *env[Tx]) refuses(do func(context.Context, int64, deadletter.Act) (bool, error), number int64, why error) {
	e.Helper()
	if done, err := do(e.ctx, number, by); done || !errors.Is(err, why) {
		e.Errorf("change of letter %d = %v, %v, want %v", number, done, err, why)
	}
}

// wantActs checks the entries of the audit log about a dead letter, the newest first.
func (e *env[Tx]) wantActs(letter int64, want ...deadletter.Action) {
	e.Helper()
	entries, err := e.s.AuditLog(e.ctx, deadletter.AuditFilter{Letter: letter})
	e.must(err, "AuditLog")
	var got []deadletter.Action
	for _, entry := range entries {
		got = append(got, entry.Action)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		e.Errorf("acts on letter %d = %v, want %v", letter, got, want)
	}
}

// restoreLetter: what was resolved or discarded by mistake is open again, and can be requeued.
func restoreLetter[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.die(n, msg("a", ""), "no route")
	number := e.letter().Number
	group := e.letter().Fingerprint
	e.change(e.s.RestoreDeadLetter, number, false)
	e.resolve(number, true)
	e.change(e.s.RestoreDeadLetter, number, true)
	e.discard(number, true)
	e.change(e.s.RestoreDeadLetter, number, true)
	l := e.show(number)
	if l.State != deadletter.Open || l.ResolvedAt != nil || l.Resolution != "" {
		e.Errorf("letter = %+v, want it open", l)
	}
	groups, err := e.s.DeadLetterGroups(e.ctx, 10)
	e.must(err, "DeadLetterGroups")
	if len(groups) != 1 || groups[0].Fingerprint != group || groups[0].Open != 1 {
		e.Errorf("groups = %+v, want one open letter", groups)
	}
	e.wantActs(number, deadletter.ActRestore, deadletter.ActDiscard, deadletter.ActRestore, deadletter.ActResolve)
	e.requeue(number, true)
	n.claimOne("a")
	e.refuses(e.s.RestoreDeadLetter, number, deadletter.ErrRequeued)
	e.refuses(e.s.RestoreDeadLetter, 1<<40, waybill.ErrNotFound)
}

// deleteLetter: nothing of the message is left but its id in the audit log.
func deleteLetter[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.gone("a")
	for _, settle := range []func(number int64){func(int64) {}, func(number int64) { e.resolve(number, true) }, func(number int64) { e.discard(number, true) }} {
		e.die(n, msg("a", ""), "no route")
		number := e.letter().Number
		settle(number)
		e.change(e.s.DeleteDeadLetter, number, true)
		if _, err := e.s.DeadLetter(e.ctx, number); !errors.Is(err, waybill.ErrNotFound) {
			e.Errorf("DeadLetter() of one that was deleted: %v, want ErrNotFound", err)
		}
		e.refuses(e.s.DeleteDeadLetter, number, waybill.ErrNotFound)
		if states := e.states("a"); len(states) != 0 {
			e.Errorf("states of its message = %+v, want none", states)
		}
		entries, err := e.s.AuditLog(e.ctx, deadletter.AuditFilter{Letter: number, Action: deadletter.ActDelete})
		e.must(err, "AuditLog")
		if len(entries) != 1 || entries[0].MessageID != "a" || entries[0].By != by.By {
			e.Errorf("audit log = %+v, want that it was deleted", entries)
		}
	}
	groups, err := e.s.DeadLetterGroups(e.ctx, 10)
	e.must(err, "DeadLetterGroups")
	if len(groups) != 0 {
		e.Errorf("groups = %+v, want none", groups)
	}
	e.die(n, msg("b", ""), "no route")
	number := e.letter().Number
	e.requeue(number, true)
	e.refuses(e.s.DeleteDeadLetter, number, deadletter.ErrRequeued)
	e.want(inspect.Waiting, "b")
}

func deleteParking[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.change(e.s.DeleteDeadLetter, n.parked().Number, true)
	e.gone("a1")
	n.claimOnly("a2", "a3", "a4")
}

// deleteConsumer: a copy of the message is recognised, until the inbox forgets it as any other.
func deleteConsumer[Tx any](e *env[Tx]) {
	e.bury("billing", msg("a", ""))
	e.change(e.s.DeleteDeadLetter, e.letter().Number, true)
	e.buryAs(letterOf("billing", msg("a", "")), false)
	e.advance(2 * week)
	e.purgeOld(janitor.Inbox, 1)
}
