package rows

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
)

// RequeueDeadLetter implements [deadletter.Store]. Round trips: 11 at most, 4 for a consumer's letter.
func (e *Engine[S]) RequeueDeadLetter(ctx context.Context, number int64, act deadletter.Act) (requeued bool, err error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		var id string
		id, requeued, err = t.requeue(ctx, number, 0)
		if err != nil || !requeued {
			return err
		}
		return t.Note(ctx, deadletter.ActRequeue, act, deadletter.Entry{Letter: number, MessageID: id})
	})
	if err != nil || !requeued {
		return false, err
	}
	e.store.WakeRelay()
	return true, nil
}

// requeue puts a letter back, for a replay unless that is 0, and returns its message's id.
func (t *Tx) requeue(ctx context.Context, number, replay int64) (id string, requeued bool, err error) {
	l, err := get(ctx, t.Letters, number)
	switch {
	case err != nil:
		return "", false, err
	case l == nil:
		return "", false, t.whereIs(ctx, number)
	case l.State != deadletter.Open:
		return "", false, fmt.Errorf("dead letter %d: %w", number, deadletter.ErrResolved)
	}
	l.Replay = replay
	if l.Origin == deadletter.FromRelay {
		requeued, err = t.requeueToRelay(ctx, l)
	} else {
		requeued, err = t.requeueToConsumer(ctx, l)
	}
	return l.Row.Message.ID, requeued, err
}

func (t *Tx) requeueToRelay(ctx context.Context, l *Letter) (bool, error) {
	if err := t.Lock(ctx, l.Row.Lane); err != nil {
		return false, err
	}
	if err := t.mayReturn(ctx, l.Number, &l.Row); err != nil {
		return false, err
	}
	there, err := exists(ctx, t.Outbox, ready.same(l.Row.identity())...)
	if err == nil && !there {
		there, err = t.waitsFor(ctx, &l.Row, l.Row.Destination)
	}
	if err != nil || there {
		return false, err
	}
	w := waiting(&l.Row, l.Row.Destination)
	w.Life, w.Letter, w.Replay, w.History = l.Requeues+1, l.Number, l.Replay, l.History
	if placed, err := t.waitInPlace(ctx, w); err != nil || !placed {
		return false, err
	}
	return true, t.Letters.Delete(ctx, l.Number)
}

// mayReturn returns ErrBehind if the outbox has a row before a letter's in its unit: one that waits can't be put behind
// it.
func (t *Tx) mayReturn(ctx context.Context, number int64, r *Row) error {
	if r.Message.Key == "" {
		return nil
	}
	before, err := exists(ctx, t.Outbox, ready.Lane.is(r.Lane), ready.Topic.is(r.Message.Address()), ready.Key.is(r.Message.Key), ready.Position.below(r.Position))
	if err == nil && before {
		err = fmt.Errorf("dead letter %d: %w", number, deadletter.ErrBehind)
	}
	return err
}

// waitInPlace adds a waiting row at the position that its message had before. It reports false if a copy of the message,
// or the message that this is a copy of, has that place.
func (t *Tx) waitInPlace(ctx context.Context, w *Waiting) (bool, error) {
	taken, err := get(ctx, t.Waiting, w.Place())
	if err != nil || taken != nil {
		return false, err
	}
	behind, err := t.waitsBefore(ctx, &w.Row)
	if err != nil {
		return false, err
	}
	if !behind {
		w.DueAt = t.Now
	}
	return true, t.Waiting.Put(ctx, w)
}

func (t *Tx) requeueToConsumer(ctx context.Context, l *Letter) (bool, error) {
	if l.Key.Message == "" {
		return false, waybill.PermanentError(waybill.ReasonNoID,
			fmt.Errorf("dead letter %d has no inbox key: its message has no id, or another one was processed under it; it cannot be run again safely", l.Number))
	}
	if !l.RequeuedAt.IsZero() {
		return false, nil
	}
	l.RequeuedAt, l.Requeued = t.Now, true
	l.Requeues++
	return true, t.Letters.Put(ctx, l)
}

// EditDeadLetter implements [deadletter.Store]. Round trips: 13 at most.
func (e *Engine[S]) EditDeadLetter(ctx context.Context, number int64, edit deadletter.Edit, act deadletter.Act) (id string, err error) {
	if err := act.Check(); err != nil {
		return "", err
	}
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		l, err := t.unsettled(ctx, number)
		if err != nil {
			return err
		}
		if l.State != deadletter.Open {
			return fmt.Errorf("dead letter %d: %w", number, deadletter.ErrResolved)
		}
		copied, err := edit.Apply(&l.Row.Message, waybill.NewID())
		if err != nil {
			return err
		}
		id = copied.ID
		if err := t.requeueCopy(ctx, *l, copied); err != nil {
			return err
		}
		if err := t.settleAs(ctx, l, deadletter.Resolved, "edited and requeued as "+id); err != nil {
			return err
		}
		return t.Note(ctx, deadletter.ActEdit, act, deadletter.Entry{Letter: number, MessageID: l.Row.Message.ID, Detail: id})
	})
	if err != nil {
		return "", err
	}
	e.store.WakeRelay()
	return id, nil
}

// requeueCopy lets the corrected copy of a letter's message take its place, unless another one has it.
func (t *Tx) requeueCopy(ctx context.Context, l Letter, copied waybill.Message) error {
	l.Row.Message = copied
	if l.Origin == deadletter.FromRelay {
		if err := t.Lock(ctx, l.Row.Lane); err != nil {
			return err
		}
		if err := t.mayReturn(ctx, l.Number, &l.Row); err != nil {
			return err
		}
		w := waiting(&l.Row, l.Row.Destination)
		w.Life = 1
		placed, err := t.waitInPlace(ctx, w)
		if err == nil && !placed {
			err = fmt.Errorf("dead letter %d: %w", l.Number, deadletter.ErrRequeued)
		}
		return err
	}
	l.Number, l.Key = 0, inbox.KeyOf(l.Consumer, &copied)
	l.Requeues, l.Requeued, l.RequeuedAt = 1, true, t.Now
	l.Fingerprint = deadletter.Fingerprint(deadletter.FromConsumer, l.Consumer, copied.Type, l.Error)
	if err := t.addLetter(ctx, &l); err != nil {
		return err
	}
	return t.Inbox.Put(ctx, &Record{Record: inbox.RecordOf(l.Consumer, &copied), Dead: true, ProcessedAt: t.Now})
}
