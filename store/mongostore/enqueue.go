package mongostore

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/outbox"
)

// EnqueueMessages implements [outbox.Store], in the transaction of session: one round trip for
// the positions, two or three to look for ids that are not fresh, one to insert.
//
// Order is by position, drawn by this call. So the order of a key is that of the enqueues
// where the transactions that enqueue it have written one document before, such as that of the
// entity that the key stands for; MongoDB lets only one of them go on.
func (s *Store) EnqueueMessages(ctx context.Context, session *mongo.Session, b outbox.Batch) ([]bool, error) {
	if len(b.Messages) == 0 {
		return []bool{}, nil
	}
	ctx, err := inSession(ctx, session)
	if err != nil {
		return nil, err
	}
	isNew, err := s.at(time.Time{}).Enqueue(ctx, b)
	return isNew, wrap(fmt.Sprintf("enqueue %d messages", len(b.Messages)), err)
}

// CancelEnqueued implements [outbox.Store], in the transaction of session.
func (s *Store) CancelEnqueued(ctx context.Context, session *mongo.Session, id outbox.Identity) (outbox.Cancellation, error) {
	ctx, t, err := s.within(ctx, session)
	if err != nil {
		return outbox.Cancellation{}, err
	}
	out, err := t.Cancel(ctx, id)
	return out, wrap("cancel a message", err)
}

// Transact implements [outbox.Store]. The context that fn gets carries the session.
func (s *Store) Transact(ctx context.Context, fn func(ctx context.Context, session *mongo.Session) (outbox.Batch, error)) (isNew []bool, err error) {
	err = s.once(ctx, func(ctx context.Context, _ *rows.Tx, session *mongo.Session) error {
		b, err := fn(ctx, session)
		if err != nil {
			return err
		}
		isNew, err = s.EnqueueMessages(ctx, session, b)
		return err
	})
	if err != nil {
		return nil, classify(err)
	}
	s.WakeRelay()
	return isNew, nil
}
