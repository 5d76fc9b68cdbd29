package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
)

func letterScenarios[Tx any]() []scenario[Tx] {
	return []scenario[Tx]{
		{"a letter is edited twice", dead[Tx]("a"), []session[Tx]{edits[Tx], edits[Tx]}, wantEdited[Tx]},
		{"a letter is edited and requeued", dead[Tx]("a"), []session[Tx]{edits[Tx], requeues[Tx]}, wantEdited[Tx]},
		{"a letter is edited and deleted", dead[Tx]("a"), []session[Tx]{edits[Tx], deletes[Tx]}, wantEdited[Tx]},
		{"a letter is edited and resolved", dead[Tx]("a"), []session[Tx]{edits[Tx], resolves[Tx]}, wantEdited[Tx]},
		{"a letter is requeued behind a message that is published", overtaken[Tx], []session[Tx]{settles[Tx](contract.Published), requeues[Tx]}, wantRequeuedSent[Tx]},
		{"a resolved letter is restored and deleted", resolved[Tx], []session[Tx]{restores[Tx], deletes[Tx]}, wantDeletedOrDead[Tx]},
		{"a resolved letter is restored and requeued", resolved[Tx], []session[Tx]{restores[Tx], requeues[Tx]}, wantRequeuedOrDead[Tx]},
		{"a replay is advanced twice", replayed[Tx], []session[Tx]{advances[Tx], advances[Tx]}, wantReplayed[Tx]},
		{"a replay is advanced while a letter of it is requeued", replayed[Tx], []session[Tx]{advances[Tx], requeues[Tx]}, wantReplayed[Tx]},
		{"a replay is advanced while a letter of it is deleted", replayed[Tx], []session[Tx]{advances[Tx], deletes[Tx]}, wantReplayed[Tx]},
		{"a replay is advanced while it is cancelled", replayed[Tx], []session[Tx]{advances[Tx], cancelsReplay[Tx]}, wantReplayed[Tx]},
	}
}

// edits requeues a corrected copy of the only dead letter.
func edits[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	payload := []byte("corrected")
	id, err := p.EditDeadLetter(ctx, e.letter, deadletter.Edit{Payload: &payload}, operator)
	if errors.Is(err, deadletter.ErrRequeued) || errors.Is(err, deadletter.ErrResolved) || errors.Is(err, waybill.ErrNotFound) {
		p.say("not edited")
		return nil
	}
	if err == nil {
		p.say("edited")
		p.committed = []string{id}
	}
	return err
}

// wantEdited expects that one of the sessions has had its will: the copy is in the outbox, and the letter is left, or
// there is no copy.
func wantEdited[Tx any](ctx context.Context, e *env[Tx]) error {
	var copies []string
	for _, p := range e.parties[:e.active] {
		copies = append(copies, p.committed...)
	}
	if len(copies) == 0 {
		return wantOneOf[Tx]("requeued", "deleted", "resolved")(ctx, e)
	}
	if others := e.said("edited", "requeued", "deleted", "resolved"); len(others) > 1 && !slices.Contains(others, "deleted") {
		return fmt.Errorf("the letter was %v", others)
	}
	if len(copies) > 1 {
		return fmt.Errorf("%d copies", len(copies))
	}
	return e.wantPlaces(ctx, copies[0], inspect.Waiting)
}

// said returns which of the words the sessions of a run have noted, in the order of the sessions.
func (e *env[Tx]) said(words ...string) (list []string) {
	for _, p := range e.parties[:e.active] {
		for _, note := range p.notes {
			if slices.Contains(words, note) {
				list = append(list, note)
			}
		}
	}
	return list
}

// resolved has a letter that was resolved.
func resolved[Tx any](ctx context.Context, e *env[Tx]) error {
	if err := dead[Tx]("a")(ctx, e); err != nil {
		return err
	}
	_, err := e.admin.ResolveDeadLetter(ctx, e.letter, operator)
	return err
}

func restores[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	return operates("restored", func(p *party[Tx]) func(context.Context, int64, deadletter.Act) (bool, error) {
		return p.RestoreDeadLetter
	})(ctx, e, p)
}

func wantDeletedOrDead[Tx any](ctx context.Context, e *env[Tx]) error {
	if len(e.said("deleted")) > 0 {
		return e.wantPlaces(ctx, "a")
	}
	return e.wantPlaces(ctx, "a", inspect.Dead)
}

func wantRequeuedOrDead[Tx any](ctx context.Context, e *env[Tx]) error {
	switch done := e.said("restored", "requeued"); {
	case slices.Equal(done, []string{"requeued"}):
		return errors.New("a resolved letter was requeued")
	case len(done) == 2:
		return e.wantPlaces(ctx, "a", inspect.Waiting)
	}
	return e.wantPlaces(ctx, "a", inspect.Dead)
}

// replayed has two letters and a replay that is to requeue them.
func replayed[Tx any](ctx context.Context, e *env[Tx]) (err error) {
	if err := dead[Tx]("a", "b")(ctx, e); err != nil {
		return err
	}
	e.replay, err = e.admin.StartReplay(ctx, deadletter.Plan{}.Complete(), operator)
	return err
}

func advances[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	r, err := p.AdvanceReplay(ctx, e.replay, 10)
	p.say("%s, requeued %d", r.State, r.Requeued)
	return err
}

func cancelsReplay[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	done, err := p.CancelReplay(ctx, e.replay, operator)
	p.say("cancelled %v", done)
	return err
}

// wantReplayed expects that each letter is requeued once, by the replay or next to it, or is left as it was. The
// replay counts those that it has requeued.
func wantReplayed[Tx any](ctx context.Context, e *env[Tx]) error {
	r, err := e.admin.AdvanceReplay(ctx, e.replay, 10)
	if err != nil {
		return err
	}
	if cancelled := len(e.said("cancelled true")) > 0; cancelled != (r.State == deadletter.Cancelled) {
		return fmt.Errorf("cancelled: %v, the replay is %s", cancelled, r.State)
	}
	sent, err := e.drain(ctx)
	if err != nil {
		return err
	}
	want := r.Requeued + len(e.said("requeued"))
	if len(sent) != want || len(slices.Compact(slices.Sorted(slices.Values(sent)))) != want {
		return fmt.Errorf("published %v, want %d: the replay has requeued %d", sent, want, r.Requeued)
	}
	if left := want + len(e.said("deleted")); r.State != deadletter.Cancelled && left != 2 {
		return fmt.Errorf("%d letters were requeued or deleted, want 2; the replay is %s", left, r.State)
	}
	return nil
}

// overtaken has a message that is tried again, and the dead letter of a later one of its key.
func overtaken[Tx any](ctx context.Context, e *env[Tx]) error {
	claims, err := e.claimed(ctx, "a", "b")
	if err != nil {
		return err
	}
	list := append(settled(contract.Wait, claims[0]), settled(contract.Dead, claims[1])...)
	list[0].Attempts, list[1].Attempts, list[1].Reason = 1, 1, waybill.ReasonExhausted
	if _, err = e.admin.SettleMessages(ctx, contract.SettleRequest{Node: "r1", Settlements: list}); err != nil {
		return err
	}
	return e.findLetter(ctx)
}

// wantRequeuedSent expects that b is published in the end, if it was requeued.
func wantRequeuedSent[Tx any](ctx context.Context, e *env[Tx]) error {
	if _, err := e.finish(ctx); err != nil {
		return err
	}
	want := inspect.Published
	if len(e.said("requeued")) == 0 {
		want = inspect.Dead
	}
	return e.wantPlaces(ctx, "b", want)
}
