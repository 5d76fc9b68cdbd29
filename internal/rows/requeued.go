package rows

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
)

// TakeRequeued implements [contract.Inbox]. Round trips: 2.
func (e *Engine[S]) TakeRequeued(ctx context.Context, consumer string, lease time.Duration) (r contract.Requeued, found bool, err error) {
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		l, err := first(ctx, t.Letters, where(letters.Consumer.is(consumer), letters.Requeued.is(true), letters.RequeuedAt.atMost(t.Now)).sorted(letters.Number.rising()))
		if found = l != nil; err != nil || !found {
			return err
		}
		l.RequeuedAt = t.Now.Add(lease)
		r = contract.Requeued{Number: l.Number, Key: l.Key, Message: l.Row.Message.Clone()}
		return t.Letters.Put(ctx, l)
	})
	return r, found && err == nil, err
}

// RunRequeued implements [contract.Inbox]. Round trips: 5.
func (e *Engine[S]) RunRequeued(ctx context.Context, r contract.Requeued, node string, fn func(ctx context.Context, session S) error) (found bool, err error) {
	running := false
	var began time.Time
	err = e.store.Run(ctx, func() bool { return !running }, func(ctx context.Context, t *Tx, session S) error {
		began = t.Now
		l, err := get(ctx, t.Letters, r.Number)
		if found = l != nil && l.Requeued; err != nil || !found {
			return err
		}
		runs, err := t.process(ctx, l)
		if err != nil || !runs {
			return err
		}
		running = true
		return fn(ctx, session)
	})
	switch {
	case err == nil:
		e.store.WakeRelay()
		return found, nil
	case !found:
		return false, err
	}
	return true, errors.Join(err, e.failRequeued(ctx, r.Number, node, began, err))
}

// process removes a dead letter and makes its inbox record a processed one. It returns false if the message was
// processed in another way, and resolves the dead letter.
func (t *Tx) process(ctx context.Context, l *Letter) (bool, error) {
	if err := t.Attempts.Delete(ctx, l.Key); err != nil {
		return false, err
	}
	r, err := get(ctx, t.Inbox, l.Key)
	if err != nil {
		return false, err
	}
	if r != nil && !r.Dead {
		return false, t.hadEffect(ctx, l)
	}
	if err := t.Letters.Delete(ctx, l.Number); err != nil {
		return false, err
	}
	if r == nil {
		r = &Record{Record: inbox.RecordOf(l.Consumer, &l.Row.Message)}
		r.Key = l.Key
	}
	r.Dead, r.ProcessedAt = false, t.Now
	return true, t.Inbox.Put(ctx, r)
}

// hadEffect resolves a dead letter whose message was processed in another way.
func (t *Tx) hadEffect(ctx context.Context, l *Letter) error {
	l.Requeued, l.RequeuedAt = false, time.Time{}
	if err := t.settleAs(ctx, l, deadletter.Resolved, deadletter.HadEffect); err != nil {
		return err
	}
	return t.Note(ctx, deadletter.ActEffect, deadletter.Act{By: l.Consumer, Why: deadletter.HadEffect},
		deadletter.Entry{Letter: l.Number, MessageID: l.Row.Message.ID})
}

// failTimeout is the timeout for recording that a requeued dead letter has failed, even if the handler's
// context has ended.
const failTimeout = 5 * time.Second

func (e *Engine[S]) failRequeued(ctx context.Context, number int64, node string, began time.Time, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failTimeout)
	defer cancel()
	return e.run(ctx, func(ctx context.Context, t *Tx) error {
		l, err := get(ctx, t.Letters, number)
		if err != nil || l == nil {
			return err
		}
		f := FailureOf(cause)
		l.Error, l.LastFailed, l.Reason = f.Error, t.Now, f.Reason
		l.Fingerprint = deadletter.Fingerprint(deadletter.FromConsumer, l.Consumer, l.Row.Message.Type, l.Error)
		if f.DeadAgain {
			l.Attempts++
			l.History = tried(l.History, deadletter.Attempt{At: t.Now, Node: node, Took: t.Now.Sub(began), Error: l.Error})
			l.RequeuedAt, l.Requeued = time.Time{}, false
			err = t.Attempts.Delete(ctx, l.Key)
		} else {
			l.RequeuedAt = t.Now.Add(RequeueWait)
			err = t.SaveStarts(ctx, l.Key, 0)
		}
		if err != nil {
			return err
		}
		return t.Letters.Put(ctx, l)
	})
}
