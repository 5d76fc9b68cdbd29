package mongostore

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

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
	return s.at(time.Time{}).Enqueue(ctx, b)
}
