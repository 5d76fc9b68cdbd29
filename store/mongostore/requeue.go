package mongostore

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
)

// RequeueDeadLetter implements [deadletter.Store].
func (s *Store) RequeueDeadLetter(ctx context.Context, number int64, act deadletter.Act) (requeued bool, err error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		var id string
		id, requeued, err = t.requeue(ctx, number, 0)
		if err != nil || !requeued {
			return err
		}
		return t.note(ctx, deadletter.ActRequeue, act, deadletter.Entry{Letter: number, MessageID: id})
	})
	if err != nil || !requeued {
		return false, err
	}
	s.WakeRelay()
	return true, nil
}

// requeue puts a letter back, for a replay unless that is 0, and returns its message's id.
func (t *tx) requeue(ctx context.Context, number, replay int64) (id string, requeued bool, err error) {
	l, found, err := t.letter(ctx, number)
	if err != nil {
		return "", false, err
	}
	l.Replay = replay
	switch {
	case !found:
		return "", false, t.whereIs(ctx, number)
	case l.State != deadletter.Open:
		return "", false, fmt.Errorf("dead letter %d: %w", number, deadletter.ErrResolved)
	case l.Origin == deadletter.FromRelay:
		requeued, err = t.requeueToRelay(ctx, l)
	default:
		requeued, err = t.requeueToConsumer(ctx, l)
	}
	return l.Row.MessageID, requeued, err
}

func (t *tx) requeueToRelay(ctx context.Context, l letterDoc) (bool, error) {
	if err := t.lockLanes(ctx, l.Row.Lane); err != nil {
		return false, err
	}
	if err := t.mayReturn(ctx, l.ID, l.Row); err != nil {
		return false, err
	}
	pending, err := exists(ctx, t.outbox, ofMessage(&l.Row.Message))
	if err != nil || pending {
		return false, err
	}
	waits, err := t.waitsFor(ctx, &l.Row.Message, l.Row.Destination)
	if err != nil || waits {
		return false, err
	}
	w := waitingOf(l.Row, l.Row.Destination)
	w.Life, w.Letter, w.Replay, w.History = l.Requeues+1, l.ID, l.Replay, l.History
	if waits, err := t.waitInPlace(ctx, w); err != nil || !waits {
		return false, err
	}
	return true, remove(ctx, t.letters, l.ID)
}

// mayReturn returns ErrBehind if the outbox has a row before a letter's in its unit: one that waits can't be put behind it.
func (t *tx) mayReturn(ctx context.Context, number int64, r rowDoc) error {
	if r.Key == "" {
		return nil
	}
	before, err := exists(ctx, t.outbox, bson.M{
		"row.lane": r.Lane, "row.topic": r.Topic, "row.key": r.Key, "row.position": bson.M{"$lt": r.Position},
	})
	if err == nil && before {
		err = fmt.Errorf("dead letter %d: %w", number, deadletter.ErrBehind)
	}
	return err
}

// waitInPlace adds a waiting row at the position that its message had before. It reports false if a copy of the message,
// or the message that this is a copy of, has that place.
func (t *tx) waitInPlace(ctx context.Context, w waitingDoc) (bool, error) {
	taken, err := exists(ctx, t.waiting, bson.M{"_id": w.ID})
	if err != nil || taken {
		return false, err
	}
	behind, err := t.waitsBefore(ctx, w.Row.unit(), w.Row.Position)
	if err != nil {
		return false, err
	}
	if !behind {
		w.DueAt = &t.now
	}
	return true, save(ctx, t.waiting, w.ID, w)
}

func (t *tx) requeueToConsumer(ctx context.Context, l letterDoc) (bool, error) {
	if l.InboxKey.Message == "" {
		return false, waybill.PermanentError(waybill.ReasonNoID,
			fmt.Errorf("dead letter %d has no inbox key: its message has no id, or another one was processed under it; it cannot be run again safely", l.ID))
	}
	if l.RequeuedAt != nil {
		return false, nil
	}
	l.RequeuedAt, l.Requeued = &t.now, true
	l.Requeues++
	return true, save(ctx, t.letters, l.ID, l)
}

// EditDeadLetter implements [deadletter.Store].
func (s *Store) EditDeadLetter(ctx context.Context, number int64, edit deadletter.Edit, act deadletter.Act) (id string, err error) {
	if err := act.Check(); err != nil {
		return "", err
	}
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		l, err := t.unsettled(ctx, number)
		if err != nil {
			return err
		}
		if l.State != deadletter.Open {
			return fmt.Errorf("dead letter %d: %w", number, deadletter.ErrResolved)
		}
		original := l.Row.Message.message()
		copied, err := edit.Apply(&original, waybill.NewID())
		if err != nil {
			return err
		}
		id = copied.ID
		if err := t.requeueCopy(ctx, l, copied); err != nil {
			return err
		}
		if err := t.settleAs(ctx, l, deadletter.Resolved, "edited and requeued as "+id); err != nil {
			return err
		}
		return t.note(ctx, deadletter.ActEdit, act, deadletter.Entry{Letter: number, MessageID: l.Row.MessageID, Detail: id})
	})
	if err != nil {
		return "", err
	}
	s.WakeRelay()
	return id, nil
}

// requeueCopy lets the corrected copy of a letter's message take its place, unless another one has it.
func (t *tx) requeueCopy(ctx context.Context, l letterDoc, copied waybill.Message) error {
	r := l.Row
	r.Message, r.MessageID, r.Topic, r.Key = docOf(&copied), copied.ID, copied.Address(), copied.Key
	if l.Origin == deadletter.FromRelay {
		if err := t.lockLanes(ctx, r.Lane); err != nil {
			return err
		}
		if err := t.mayReturn(ctx, l.ID, r); err != nil {
			return err
		}
		w := waitingOf(r, r.Destination)
		w.Life = 1
		waits, err := t.waitInPlace(ctx, w)
		if err == nil && !waits {
			err = fmt.Errorf("dead letter %d: %w", l.ID, deadletter.ErrRequeued)
		}
		return err
	}
	key := inbox.KeyOf(l.Consumer, &copied)
	l.ID, l.Row, l.InboxKey = 0, r, keyDoc(key)
	l.Requeues, l.Requeued, l.RequeuedAt = 1, true, &t.now
	l.Fingerprint = deadletter.Fingerprint(deadletter.FromConsumer, l.Consumer, copied.Type, l.Error)
	if err := t.addLetter(ctx, l); err != nil {
		return err
	}
	rec := recordOf(inbox.RecordOf(l.Consumer, &copied), t.now)
	rec.Dead = true
	return save(ctx, t.inbox, rec.Key, rec)
}
