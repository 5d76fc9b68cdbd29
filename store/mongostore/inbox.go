package mongostore

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
)

// gateTimeout is how long a delivery waits while another transaction handles the same message.
const gateTimeout = time.Second

// patientUntil returns which errors a transaction is repeated after: clashes, until a time.
func patientUntil(end time.Time) func(error) bool {
	return func(err error) bool { return isClash(err) && time.Now().Before(end) }
}

// busy says of a clash with a transaction, over an inbox key, that this one handles the message.
func busy(err error) error {
	if !waybill.IsConflict(err) {
		return err
	}
	return waybill.ConflictError(fmt.Errorf("%w: %w", inbox.ErrBusy, err))
}

// ProcessOnce implements [inbox.Inbox]. The context that fn gets carries the session: what fn
// does with it is in the transaction. fn runs after the record is written, so one that clashes
// with another transaction is not run again here; it comes back as a conflict.
func (s *Store) ProcessOnce(ctx context.Context, rec inbox.Record, fn func(ctx context.Context, session *mongo.Session) error) (inbox.Outcome, error) {
	for {
		began, patient := false, patientUntil(time.Now().Add(gateTimeout))
		err := s.repeat(ctx, func(err error) bool { return !began && patient(err) }, func(ctx context.Context, t *tx) error {
			if rec.Retried {
				if err := remove(ctx, s.attempts, keyDoc(rec.Key)); err != nil {
					return err
				}
			}
			if _, err := s.inbox.InsertOne(ctx, recordOf(rec, t.now)); err != nil {
				return err
			}
			began = true
			return fn(ctx, t.session)
		})
		if err == nil {
			s.WakeRelay() // the handler may have enqueued
			return inbox.Processed, nil
		}
		if began {
			return 0, err
		}
		if !mongo.IsDuplicateKeyError(err) {
			return 0, busy(err)
		}
		outcome, found, err := s.seen(ctx, rec)
		if found || err != nil {
			return outcome, wrap("look for an inbox record", err)
		}
	}
}

// seen says what became of a message whose record is there. It returns false if that has gone
// since.
func (s *Store) seen(ctx context.Context, rec inbox.Record) (inbox.Outcome, bool, error) {
	d, found, err := findOne[recordDoc](ctx, s.inbox, bson.M{"_id": keyDoc(rec.Key)})
	if err != nil || !found {
		return 0, false, err
	}
	if rec.Retried {
		err = remove(ctx, s.attempts, d.Key)
	}
	return d.outcome(rec), true, err
}

func (d *recordDoc) outcome(rec inbox.Record) inbox.Outcome {
	switch {
	case d.Dead:
		return inbox.Dead
	case d.PayloadHash != "" && d.PayloadHash != rec.PayloadHash:
		return inbox.Conflict
	}
	return inbox.Duplicate
}

// FailedAttempts implements [inbox.Inbox].
func (s *Store) FailedAttempts(ctx context.Context, key inbox.Key) (inbox.Attempts, error) {
	d, found, err := findOne[attemptDoc](ctx, s.attempts, bson.M{"_id": keyDoc(key)})
	if err != nil || !found {
		return inbox.Attempts{}, wrap("look for attempts", err)
	}
	now, err := serverTime(ctx, s.db, &s.cfg)
	if err != nil {
		return inbox.Attempts{}, wrap("read the server's clock", err)
	}
	return inbox.Attempts{Count: d.Count, Wait: max(0, d.DueAt.Sub(now)), Starts: d.Starts, Error: d.error()}, nil
}

// SaveAttempt implements [inbox.Inbox].
func (s *Store) SaveAttempt(ctx context.Context, key inbox.Key, a inbox.FailedAttempt) error {
	return s.inTx(ctx, func(ctx context.Context, t *tx) error {
		past, _, err := findOne[attemptDoc](ctx, s.attempts, bson.M{"_id": keyDoc(key)})
		if err != nil {
			return err
		}
		next := attemptDoc{Key: keyDoc(key), Count: a.Count, DueAt: t.now.Add(a.Wait), FirstAt: t.now, History: past.History}
		if past.Count > 0 {
			next.FirstAt = past.FirstAt
		}
		if a.Count > past.Count {
			next.History = tried(past.History, t.now, a.Node, a.Took, a.Error)
		}
		return save(ctx, s.attempts, next.Key, next)
	})
}

// SaveStarts implements [inbox.Inbox].
func (s *Store) SaveStarts(ctx context.Context, key inbox.Key, starts int) error {
	return busy(s.repeat(ctx, patientUntil(time.Now().Add(gateTimeout)), func(ctx context.Context, t *tx) error {
		return t.saveStarts(ctx, key, starts)
	}))
}

func (t *tx) saveStarts(ctx context.Context, key inbox.Key, starts int) error {
	past, found, err := findOne[attemptDoc](ctx, t.attempts, bson.M{"_id": keyDoc(key)})
	if err != nil || !found && starts == 0 {
		return err
	}
	if !found {
		past = attemptDoc{Key: keyDoc(key), DueAt: t.now, FirstAt: t.now}
	}
	past.Starts = starts
	return save(ctx, t.attempts, past.Key, past)
}

// BuryMessage implements [inbox.Inbox].
func (s *Store) BuryMessage(ctx context.Context, l inbox.Letter) (buried bool, err error) {
	err = s.repeat(ctx, patientUntil(time.Now().Add(gateTimeout)), func(ctx context.Context, t *tx) error {
		buried = false
		key := keyDoc(l.Record.Key)
		if key.Message != "" {
			seen, err := exists(ctx, s.inbox, bson.M{"_id": key})
			if seen || err != nil {
				return err
			}
			rec := recordOf(l.Record, t.now)
			rec.Dead = true
			if _, err := s.inbox.InsertOne(ctx, rec); err != nil {
				return err
			}
		}
		past, _, err := findOne[attemptDoc](ctx, s.attempts, bson.M{"_id": key})
		if err != nil {
			return err
		}
		buried = true
		if err := t.addLetter(ctx, t.letterOf(l, past)); err != nil {
			return err
		}
		return remove(ctx, s.attempts, key)
	})
	return buried && err == nil, busy(err)
}

// letterOf returns a consumer's letter, with what is known of the attempts before.
func (t *tx) letterOf(l inbox.Letter, past attemptDoc) letterDoc {
	m := l.Message
	m.Tenant = l.Record.Tenant
	return letterDoc{
		Row: rowOf(&m, 0, t.now), InboxKey: keyDoc(l.Record.Key),
		Letter: deadletter.Letter{
			Origin: deadletter.FromConsumer, Consumer: l.Record.Consumer, Reason: l.Reason, Error: l.Error,
			Attempts: l.Attempts, Failed: l.Failed, State: deadletter.Open,
			Fingerprint: deadletter.Fingerprint(deadletter.FromConsumer, l.Record.Consumer, m.Type, l.Error),
			FirstFailed: orNow(past.FirstAt, t.now), LastFailed: t.now,
			History: tried(past.History, t.now, l.Node, l.Took, l.Error),
		},
	}
}

// InboxSize implements [inbox.Sizer]. The number is that of the collection's metadata.
func (s *Store) InboxSize(ctx context.Context) (inbox.Size, error) {
	n, err := s.inbox.EstimatedDocumentCount(ctx)
	if err != nil {
		return inbox.Size{}, wrap("count inbox records", err)
	}
	now, err := serverTime(ctx, s.db, &s.cfg)
	if err != nil {
		return inbox.Size{}, wrap("read the server's clock", err)
	}
	oldest, found, err := findOne[recordDoc](ctx, s.inbox, bson.M{}, "processed_at")
	size := inbox.Size{Records: n}
	if found {
		size.Oldest = max(0, now.Sub(oldest.ProcessedAt))
	}
	return size, wrap("look for the oldest inbox record", err)
}
