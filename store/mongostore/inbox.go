package mongostore

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/rows"
)

// gateTimeout is how long a delivery waits while another transaction handles the same message.
const gateTimeout = time.Second

// patience returns a function that returns true for the length of gateTimeout.
func patience() func() bool {
	end := time.Now().Add(gateTimeout)
	return func() bool { return time.Now().Before(end) }
}

// busy says of a clash with a transaction, over an inbox key, that this one handles the message.
func busy(err error) error {
	if !waybill.IsConflict(err) {
		return err
	}
	return waybill.ConflictError(fmt.Errorf("%w: %w", inbox.ErrBusy, err))
}

// ProcessOnce implements [contract.Inbox]. The context that fn gets carries the session: what fn
// does with it is in the transaction. fn runs after the record is written, so one that clashes
// with another transaction is not run again here; it comes back as a conflict.
func (s *Store) ProcessOnce(ctx context.Context, rec inbox.Record, fn func(ctx context.Context, session *mongo.Session) error) (inbox.Outcome, error) {
	for {
		began, patient := false, patience()
		err := database{s}.Run(ctx, func() bool { return !began && patient() }, func(ctx context.Context, t *rows.Tx, session *mongo.Session) error {
			if rec.Retried {
				if err := t.Attempts.Delete(ctx, rec.Key); err != nil {
					return err
				}
			}
			if err := t.Inbox.Add(ctx, rows.NewRecord(rec, t.Now)); err != nil {
				return err
			}
			began = true
			return fn(ctx, session)
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

// seen returns what became of a message whose record exists. It returns false if the record was
// removed meanwhile.
func (s *Store) seen(ctx context.Context, rec inbox.Record) (inbox.Outcome, bool, error) {
	ctx = outside(ctx)
	found, err := s.tables.Inbox.Get(ctx, rec.Key)
	if err != nil || len(found) == 0 {
		return 0, false, err
	}
	if rec.Retried {
		err = s.tables.Attempts.Delete(ctx, rec.Key)
	}
	return found[0].Outcome(rec), true, err
}

// SaveStarts implements [contract.Inbox].
func (s *Store) SaveStarts(ctx context.Context, key inbox.Key, starts int) error {
	return busy(database{s}.Run(ctx, patience(), func(ctx context.Context, t *rows.Tx, _ *mongo.Session) error {
		return t.SaveStarts(ctx, key, starts)
	}))
}

// BuryMessage implements [contract.Inbox].
func (s *Store) BuryMessage(ctx context.Context, l inbox.Letter) (buried bool, err error) {
	err = database{s}.Run(ctx, patience(), func(ctx context.Context, t *rows.Tx, _ *mongo.Session) error {
		buried, err = t.Bury(ctx, l)
		return err
	})
	return buried && err == nil, busy(err)
}

// InboxSize implements [inspect.InboxSizer]. The number is that of the collection's metadata.
func (s *Store) InboxSize(ctx context.Context) (inspect.InboxSize, error) {
	n, err := s.inbox.EstimatedDocumentCount(ctx)
	if err != nil {
		return inspect.InboxSize{}, wrap("count inbox records", err)
	}
	now, err := serverTime(ctx, s.db, &s.cfg)
	if err != nil {
		return inspect.InboxSize{}, wrap("read the server's clock", err)
	}
	oldest, found, err := findOne[recordDoc](ctx, s.inbox, bson.M{}, "processed_at")
	size := inspect.InboxSize{Records: n}
	if found {
		size.Oldest = max(0, now.Sub(oldest.ProcessedAt))
	}
	return size, wrap("look for the oldest inbox record", err)
}
