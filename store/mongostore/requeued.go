package mongostore

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
)

// TakeRequeued implements [inbox.Inbox].
func (s *Store) TakeRequeued(ctx context.Context, consumer string, lease time.Duration) (r inbox.Requeued, found bool, err error) {
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		var l letterDoc
		l, found, err = findOne[letterDoc](ctx, s.letters,
			bson.M{"consumer": consumer, "requeued": true, "requeued_at": bson.M{"$lte": t.now}}, "_id")
		if err != nil || !found {
			return err
		}
		until := t.now.Add(lease)
		l.RequeuedAt = &until
		r = inbox.Requeued{Number: l.ID, Key: l.InboxKey.key(), Message: l.Row.Message.message()}
		return save(ctx, s.letters, l.ID, l)
	})
	return r, found && err == nil, err
}

// RunRequeued implements [inbox.Inbox].
func (s *Store) RunRequeued(ctx context.Context, r inbox.Requeued, node string, fn func(ctx context.Context, session *mongo.Session) error) (found bool, err error) {
	began := time.Now()
	running := false
	err = s.repeat(ctx, func(err error) bool { return !running && isClash(err) }, func(ctx context.Context, t *tx) error {
		var l letterDoc
		l, found, err = t.letter(ctx, r.Number)
		if found = found && l.Requeued; err != nil || !found {
			return err
		}
		runs, err := t.process(ctx, l)
		if err != nil || !runs {
			return err
		}
		running = true
		return fn(ctx, t.session)
	})
	switch {
	case err == nil:
		s.WakeRelay()
		return found, nil
	case !found:
		return false, err
	}
	return true, errors.Join(err, s.failRequeued(ctx, r.Number, node, time.Since(began), err))
}

// process removes a letter and makes its inbox record a processed one. It returns false if
// the message was processed in another way, and resolves the letter.
func (t *tx) process(ctx context.Context, l letterDoc) (bool, error) {
	if err := remove(ctx, t.attempts, l.InboxKey); err != nil {
		return false, err
	}
	rec, seen, err := findOne[recordDoc](ctx, t.inbox, bson.M{"_id": l.InboxKey})
	if err != nil {
		return false, err
	}
	if seen && !rec.Dead {
		return false, t.hadEffect(ctx, l)
	}
	if err := remove(ctx, t.letters, l.ID); err != nil {
		return false, err
	}
	if !seen {
		m := l.Row.Message.message()
		rec = recordOf(inbox.RecordOf(l.Consumer, &m), t.now)
		rec.Key = l.InboxKey
	}
	rec.Dead, rec.ProcessedAt = false, t.now
	return true, save(ctx, t.inbox, rec.Key, rec)
}

// hadEffect resolves a letter whose message was processed in another way.
func (t *tx) hadEffect(ctx context.Context, l letterDoc) error {
	l.Requeued, l.RequeuedAt = false, nil
	if err := t.settleAs(ctx, l, deadletter.Resolved, deadletter.HadEffect); err != nil {
		return err
	}
	return t.note(ctx, deadletter.ActEffect, deadletter.Act{By: l.Consumer, Why: deadletter.HadEffect},
		deadletter.Entry{Letter: l.ID, MessageID: l.Row.MessageID})
}

const requeueWait = 5 * time.Second // before a requeued letter that met an outage is tried again

func (s *Store) failRequeued(ctx context.Context, number int64, node string, took time.Duration, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	return s.inTx(ctx, func(ctx context.Context, t *tx) error {
		l, found, err := t.letter(ctx, number)
		if err != nil || !found {
			return err
		}
		l.Error, l.LastFailed, l.Reason = waybill.ErrorText(cause), t.now, waybill.ReasonExhausted
		l.Fingerprint = deadletter.Fingerprint(deadletter.FromConsumer, l.Consumer, l.Row.Message.Type, l.Error)
		kind := waybill.KindOf(cause)
		if kind == waybill.Permanent {
			l.Reason = waybill.ReasonOf(cause)
		}
		if kind == waybill.Permanent || kind == waybill.Transient {
			l.Attempts++
			l.History = tried(l.History, t.now, node, took, l.Error)
			l.RequeuedAt, l.Requeued = nil, false
			err = remove(ctx, s.attempts, l.InboxKey)
		} else {
			due := t.now.Add(requeueWait)
			l.RequeuedAt = &due
			err = t.saveStarts(ctx, l.InboxKey.key(), 0)
		}
		if err != nil {
			return err
		}
		return save(ctx, s.letters, number, l)
	})
}
