package rows

import (
	"context"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
)

// RequeueDeadLetter implements [deadletter.Store]. Round trips: 12 at most, 4 for a consumer's dead letter.
func (e *Engine[S]) RequeueDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return e.change(ctx, number, deadletter.ActRequeue, act, func(ctx context.Context, t *Tx, l *Letter) (bool, string, error) {
		requeued, err := t.requeue(ctx, l, 0)
		return requeued, "", err
	})
}

// requeue requeues a dead letter whose state allows it, with the number of the replay that does it, 0 if none
// does.
func (t *Tx) requeue(ctx context.Context, l *Letter, replay int64) (bool, error) {
	l.Replay = replay
	if l.Origin == deadletter.FromRelay {
		return t.requeueToRelay(ctx, l)
	}
	l.RequeuedAt, l.Requeued = t.Now, true
	l.Requeues++
	return true, t.Letters.Put(ctx, l)
}

func (t *Tx) requeueToRelay(ctx context.Context, l *Letter) (bool, error) {
	if err := t.Lock(ctx, l.Row.Lane); err != nil {
		return false, err
	}
	if err := t.mayReturn(ctx, &l.Row); err != nil {
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

// mayReturn returns ErrBehind if the outbox has a row before a dead letter's in its unit: a waiting row can't
// be queued behind it.
func (t *Tx) mayReturn(ctx context.Context, r *Row) error {
	if r.Message.Key == "" {
		return nil
	}
	before, err := exists(ctx, t.Outbox, ready.Lane.is(r.Lane), ready.Topic.is(r.Message.Address()), ready.Key.is(r.Message.Key), ready.Position.below(r.Position))
	if err == nil && before {
		err = deadletter.ErrBehind
	}
	return err
}

// waitInPlace adds a waiting row at the position that its message had before. It returns false if a copy of the
// message, or the message that this is a copy of, has that place.
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

// EditDeadLetter implements [deadletter.Store]. Round trips: 14 at most.
func (e *Engine[S]) EditDeadLetter(ctx context.Context, number int64, edit deadletter.Edit, act deadletter.Act) (id string, err error) {
	_, err = e.change(ctx, number, deadletter.ActEdit, act, func(ctx context.Context, t *Tx, l *Letter) (bool, string, error) {
		copied, err := edit.Apply(&l.Row.Message, waybill.NewID())
		if err != nil {
			return false, "", err
		}
		if err := t.requeueCopy(ctx, *l, copied); err != nil {
			return false, "", err
		}
		id = copied.ID
		return true, id, t.settleAs(ctx, l, deadletter.Resolved, "edited and requeued as "+id)
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// requeueCopy lets the corrected copy of a dead letter's message take its place, unless another message has it.
func (t *Tx) requeueCopy(ctx context.Context, l Letter, copied waybill.Message) error {
	l.Row.Message = copied
	if l.Origin == deadletter.FromRelay {
		if err := t.Lock(ctx, l.Row.Lane); err != nil {
			return err
		}
		if err := t.mayReturn(ctx, &l.Row); err != nil {
			return err
		}
		w := waiting(&l.Row, l.Row.Destination)
		w.Life = 1
		placed, err := t.waitInPlace(ctx, w)
		if err == nil && !placed {
			err = deadletter.ErrRequeued
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
