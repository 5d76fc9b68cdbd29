package rows

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
)

// replayable holds for the dead letters that a replay with a filter would requeue.
func replayable(f deadletter.Filter) []Condition[*Letter] {
	return append(filtered(f), letters.Requeued.is(false))
}

// PreviewReplay implements [deadletter.ReplayStore]. Round trips: 1.
func (e *Engine[S]) PreviewReplay(ctx context.Context, f deadletter.Filter, inboxRetention time.Duration) (deadletter.Preview, error) {
	var p deadletter.Preview
	if err := (deadletter.Plan{Filter: f}).Check(); err != nil {
		return p, err
	}
	err := e.run(ctx, func(ctx context.Context, t *Tx) error {
		p = deadletter.Preview{}
		keys := make(map[[2]string]bool)
		q := where(replayable(f)...).sorted(letters.Number.rising()).only(letters.Topic.Name, letters.Key.Name, "first_failed_at", letters.LastFailed.Name)
		found, err := t.Letters.Find(ctx, q)
		for _, l := range found {
			p.Letters++
			if l.Row.Message.Key != "" {
				keys[l.Row.topicKey()] = true
			}
			if inboxRetention > 0 && t.Now.Sub(l.LastFailed) > inboxRetention {
				p.Unprotected++
			}
			if p.Oldest.IsZero() || l.FirstFailed.Before(p.Oldest) {
				p.Oldest = l.FirstFailed
			}
		}
		p.Keys = len(keys)
		return err
	})
	return p, err
}

// StartReplay implements [deadletter.ReplayStore]. Round trips: 6.
func (e *Engine[S]) StartReplay(ctx context.Context, p deadletter.Plan, act deadletter.Act) (number int64, err error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	if err := act.Check(); err != nil {
		return 0, err
	}
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		n, err := t.Letters.Count(ctx, replayable(p.Filter)...)
		if err != nil {
			return err
		}
		last, err := first(ctx, t.Letters, where(replayable(p.Filter)...).sorted(letters.Number.falling()))
		if err != nil {
			return err
		}
		if number, _, err = t.Draw(ctx, Numbers, 1); err != nil {
			return err
		}
		r := &Replay{Replay: deadletter.Replay{
			Number: number, Plan: p.Complete(), Act: act, State: deadletter.Running, Letters: n, StartedAt: t.Now,
		}}
		if last != nil {
			r.UpTo = last.Number
		}
		if err := t.Replays.Add(ctx, r); err != nil {
			return err
		}
		return t.Note(ctx, deadletter.ActReplay, act, deadletter.Entry{Replay: number})
	})
	if err != nil {
		return 0, err
	}
	return number, nil
}

// Replay implements [deadletter.ReplayStore]. Round trips: 2.
func (e *Engine[S]) Replay(ctx context.Context, number int64) (shown deadletter.Replay, err error) {
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		r, err := t.replay(ctx, number)
		if err != nil {
			return err
		}
		shown, err = t.shownReplay(ctx, r)
		return err
	})
	return shown, err
}

func (t *Tx) replay(ctx context.Context, number int64) (*Replay, error) {
	r, err := get(ctx, t.Replays, number)
	if err == nil && r == nil {
		err = fmt.Errorf("replay %d: %w", number, waybill.ErrNotFound)
	}
	return r, err
}

// shownReplay returns a replay as callers get it.
func (t *Tx) shownReplay(ctx context.Context, r *Replay) (shown deadletter.Replay, err error) {
	shown = r.Replay
	shown.Failed, err = t.Letters.Count(ctx, letters.Replay.is(r.Number), letters.Requeued.is(false))
	return shown, err
}

// Replays implements [deadletter.ReplayStore]. Round trips: 2, and 1 for each replay.
func (e *Engine[S]) Replays(ctx context.Context, limit int) ([]deadletter.Replay, error) {
	list := []deadletter.Replay{}
	err := e.run(ctx, func(ctx context.Context, t *Tx) error {
		list = list[:0]
		for _, state := range []Condition[*Replay]{replays.State.is(deadletter.Running), replays.State.notIn(deadletter.Running)} {
			if limit <= len(list) {
				break
			}
			found, err := t.Replays.Find(ctx, where(state).sorted(replays.Number.falling()).first(limit-len(list)))
			if err != nil {
				return err
			}
			for _, r := range found {
				shown, err := t.shownReplay(ctx, r)
				if err != nil {
					return err
				}
				list = append(list, shown)
			}
		}
		return nil
	})
	return list, err
}

// AdvanceReplay implements [deadletter.ReplayStore]. Round trips: 5, and those of a requeue for each of n dead
// letters.
func (e *Engine[S]) AdvanceReplay(ctx context.Context, number int64, n int) (shown deadletter.Replay, err error) {
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		r, err := t.replay(ctx, number)
		if err != nil {
			return err
		}
		if r.State == deadletter.Running {
			if err := t.advance(ctx, r, n); err != nil {
				return err
			}
			if err := t.Replays.Put(ctx, r); err != nil {
				return err
			}
		}
		shown, err = t.shownReplay(ctx, r)
		return err
	})
	if err != nil {
		return deadletter.Replay{}, err
	}
	e.store.WakeRelay()
	return shown, nil
}

func (t *Tx) advance(ctx context.Context, r *Replay, n int) error {
	shown, err := t.shownReplay(ctx, r)
	if err != nil {
		return err
	}
	now := t.Now
	if r.Failed = shown.Failed; r.Stops() {
		r.EndedAt = &now
		return nil
	}
	c := append(replayable(r.Plan.Filter), letters.Number.above(r.Passed), letters.Number.atMost(r.UpTo))
	found, err := t.Letters.Find(ctx, where(c...).sorted(letters.Number.rising()).first(n+1))
	if err != nil {
		return err
	}
	for _, l := range found[:min(n, len(found))] {
		if err := t.replayOne(ctx, r, l); err != nil {
			return err
		}
	}
	if len(found) <= n {
		r.End()
		r.EndedAt = &now
	}
	return nil
}

// replayOne requeues a dead letter, or skips it if that is not possible.
func (t *Tx) replayOne(ctx context.Context, r *Replay, l *Letter) error {
	requeued, err := May(deadletter.ActRequeue, l.letterState())
	if requeued && err == nil {
		requeued, err = t.requeue(ctx, l, r.Number)
	}
	if err := r.Pass(l.Number, requeued && err == nil, err); err != nil || !requeued {
		return err
	}
	return t.Note(ctx, deadletter.ActRequeue, r.Act, deadletter.Entry{Letter: l.Number, MessageID: l.Row.Message.ID, Replay: r.Number})
}

// CancelReplay implements [deadletter.ReplayStore]. Round trips: 4.
func (e *Engine[S]) CancelReplay(ctx context.Context, number int64, act deadletter.Act) (cancelled bool, err error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		cancelled = false
		r, err := t.replay(ctx, number)
		if err != nil || r.State != deadletter.Running {
			return err
		}
		cancelled = true
		now := t.Now
		r.State, r.EndedAt = deadletter.Cancelled, &now
		if err := t.Replays.Put(ctx, r); err != nil {
			return err
		}
		return t.Note(ctx, deadletter.ActCancel, act, deadletter.Entry{Replay: number})
	})
	return cancelled && err == nil, err
}
