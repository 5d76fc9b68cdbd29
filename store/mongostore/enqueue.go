package mongostore

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill"
)

// EnqueueMessages implements [outbox.Store], in the transaction of session: one round trip for
// the positions, two or three to look for the ids, one to insert.
//
// Order is by position, drawn by this call. So the order of a key is that of the enqueues
// where the transactions that enqueue it have written one document before, such as that of the
// entity that the key stands for; MongoDB lets only one of them go on.
func (s *Store) EnqueueMessages(ctx context.Context, session *mongo.Session, msgs []waybill.Message, unique bool) ([]bool, error) {
	if len(msgs) == 0 {
		return []bool{}, nil
	}
	ctx, err := within(ctx, session)
	if err != nil {
		return nil, err
	}
	first, now, err := s.draw(ctx, counterPosition, len(msgs))
	if err != nil {
		return nil, wrap("draw positions", err)
	}
	isNew, err := s.newAmong(ctx, msgs, unique, now)
	if err != nil {
		return nil, wrap("look for ids", err)
	}
	var rows []readyDoc
	for i := range msgs {
		if isNew[i] {
			position := first + int64(i)
			rows = append(rows, readyDoc{position, rowOf(&msgs[i], position, now)})
		}
	}
	return isNew, wrap(fmt.Sprintf("enqueue %d messages", len(rows)), insertAll(ctx, s.outbox, rows))
}

// newAmong says which messages are new, and remembers their ids if they are to be unique. It
// asks before it writes, because a duplicate key would end the transaction.
func (s *Store) newAmong(ctx context.Context, msgs []waybill.Message, unique bool, now time.Time) ([]bool, error) {
	ids := make([]string, len(msgs))
	for i := range msgs {
		ids[i] = msgs[i].ID
	}
	taken, err := s.onTheirWay(ctx, ids)
	if err != nil {
		return nil, err
	}
	remembered := map[string]bool{}
	if unique {
		if remembered, err = idSet(ctx, s.ids, "_id", ids); err != nil {
			return nil, err
		}
	}
	var added []bson.M
	isNew := make([]bool, len(msgs))
	for i, id := range ids {
		isNew[i] = !taken[id] && !remembered[id]
		taken[id] = true
		if unique && !remembered[id] {
			remembered[id] = true
			added = append(added, bson.M{"_id": id, "at": now})
		}
	}
	return isNew, insertAll(ctx, s.ids, added)
}

// onTheirWay returns those of the ids that are in the outbox or wait.
func (s *Store) onTheirWay(ctx context.Context, ids []string) (map[string]bool, error) {
	ready, err := idSet(ctx, s.outbox, "row.message_id", ids)
	if err != nil {
		return nil, err
	}
	waiting, err := idSet(ctx, s.waiting, "row.message_id", ids)
	for id := range waiting {
		ready[id] = true
	}
	return ready, err
}

// idSet returns those of the ids that a field has.
func idSet(ctx context.Context, c *mongo.Collection, field string, ids []string) (map[string]bool, error) {
	docs, err := find[struct {
		ID string `bson:"id"`
	}](ctx, c, bson.M{field: in(ids)}, options.Find().SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: "id", Value: "$" + field}}))
	set := make(map[string]bool, len(docs))
	for _, d := range docs {
		set[d.ID] = true
	}
	return set, err
}

// Transact implements [outbox.Store]. The context that fn gets carries the session.
func (s *Store) Transact(ctx context.Context, fn func(ctx context.Context, session *mongo.Session) ([]waybill.Message, error), unique bool) (isNew []bool, err error) {
	err = s.once(ctx, func(ctx context.Context, t *tx) error {
		msgs, err := fn(ctx, t.session)
		if err != nil {
			return err
		}
		isNew, err = s.EnqueueMessages(ctx, t.session, msgs, unique)
		return err
	})
	if err != nil {
		return nil, classify(err)
	}
	s.WakeRelay()
	return isNew, nil
}
