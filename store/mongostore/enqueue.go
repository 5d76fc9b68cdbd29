package mongostore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
)

// EnqueueMessages implements [outbox.Store], in the transaction of session: one round trip for
// the positions, two or three to look for ids that are not fresh, one to insert.
//
// Order is by position, drawn by this call. So the order of a key is that of the enqueues
// where the transactions that enqueue it have written one document before, such as that of the
// entity that the key stands for; MongoDB lets only one of them go on.
func (s *Store) EnqueueMessages(ctx context.Context, session *mongo.Session, b outbox.Batch) ([]bool, error) {
	msgs := b.Messages
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
	isNew := slices.Repeat([]bool{true}, len(msgs))
	if b.Remember || !b.Fresh {
		if isNew, err = s.newAmong(ctx, msgs, b.Remember, now); err != nil {
			return nil, wrap("look for ids", err)
		}
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

// newAmong says which messages are new, and remembers them if they are to be unique. It asks
// before it writes, because a duplicate key would end the transaction.
func (s *Store) newAmong(ctx context.Context, msgs []waybill.Message, unique bool, now time.Time) ([]bool, error) {
	taken, err := s.onTheirWay(ctx, msgs)
	if err != nil {
		return nil, err
	}
	remembered := map[any]bool{}
	if unique {
		if remembered, err = s.remembered(ctx, msgs); err != nil {
			return nil, err
		}
	}
	var added []bson.M
	isNew := make([]bool, len(msgs))
	for i := range msgs {
		id := identityOf(&msgs[i])
		known := remembered[id] || remembered[id.ID]
		isNew[i] = !taken[id] && !known
		taken[id] = true
		if unique && !known {
			remembered[id] = true
			added = append(added, bson.M{"_id": id, "at": now})
		}
	}
	return isNew, insertAll(ctx, s.ids, added)
}

// identityDoc is an [outbox.Identity]. MongoDB compares such _ids field by field, in this order.
type identityDoc struct {
	ID     string `bson:"id"`
	Source string `bson:"source"`
	Tenant string `bson:"tenant"`
}

func identityOf(m *waybill.Message) identityDoc { return identityDoc{m.ID, m.Source, m.Tenant} }

// remembered returns which messages were enqueued within the retention: their identities, and ids
// alone, from earlier versions.
func (s *Store) remembered(ctx context.Context, msgs []waybill.Message) (map[any]bool, error) {
	keys := make([]any, 0, 2*len(msgs))
	for i := range msgs {
		keys = append(keys, identityOf(&msgs[i]), msgs[i].ID)
	}
	docs, err := find[struct {
		ID bson.RawValue `bson:"_id"`
	}](ctx, s.ids, bson.M{"_id": in(keys)}, options.Find().SetProjection(only("_id")))
	set := make(map[any]bool, len(docs))
	for _, d := range docs {
		var id identityDoc
		if text, ok := d.ID.StringValueOK(); ok {
			set[text] = true
		} else if err := d.ID.Unmarshal(&id); err != nil {
			return nil, err
		}
		set[id] = true
	}
	return set, err
}

// onTheirWay returns which identities with the ids of msgs are in the outbox or wait.
func (s *Store) onTheirWay(ctx context.Context, msgs []waybill.Message) (map[identityDoc]bool, error) {
	ids := make([]string, len(msgs))
	for i := range msgs {
		ids[i] = msgs[i].ID
	}
	set := make(map[identityDoc]bool)
	for _, c := range []*mongo.Collection{s.outbox, s.waiting} {
		docs, err := find[identityDoc](ctx, c, bson.M{"row.message_id": in(ids)}, options.Find().SetProjection(
			bson.D{{Key: "_id", Value: 0}, {Key: "id", Value: "$row.message_id"}, {Key: "source", Value: "$row.message.source"}, {Key: "tenant", Value: "$row.message.tenant"}}))
		if err != nil {
			return nil, err
		}
		for _, id := range docs {
			set[id] = true
		}
	}
	return set, nil
}

// ofMessage matches what has the identity of a message.
func ofMessage(m *messageDoc) bson.M {
	return bson.M{"row.message_id": m.ID, "row.message.source": m.Source, "row.message.tenant": m.Tenant}
}

// Transact implements [outbox.Store]. The context that fn gets carries the session.
func (s *Store) Transact(ctx context.Context, fn func(ctx context.Context, session *mongo.Session) (outbox.Batch, error)) (isNew []bool, err error) {
	err = s.once(ctx, func(ctx context.Context, t *tx) error {
		b, err := fn(ctx, t.session)
		if err != nil {
			return err
		}
		isNew, err = s.EnqueueMessages(ctx, t.session, b)
		return err
	})
	if err != nil {
		return nil, classify(err)
	}
	s.WakeRelay()
	return isNew, nil
}
