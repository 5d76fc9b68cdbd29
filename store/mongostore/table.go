package mongostore

import (
	"context"
	"regexp"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill/internal/rows"
)

// table implements [rows.Table] over a collection, in the transaction that the context carries. D is how a row is
// stored.
type table[K, R, D any] struct {
	c      *mongo.Collection
	fields map[string]string // where columns are that are not top-level fields of their own name
	id     func(K) any       // the _id of a key
	key    func(*R) K
	doc    func(*R) D
	row    func(*D) *R
}

// field returns where a column is.
func (t *table[K, R, D]) field(column string) string {
	if f, ok := t.fields[column]; ok {
		return f
	}
	return column
}

func (t *table[K, R, D]) ids(keys []K) bson.M {
	ids := make([]any, len(keys))
	for i, k := range keys {
		ids[i] = t.id(k)
	}
	return bson.M{"_id": in(ids)}
}

func (t *table[K, R, D]) Get(ctx context.Context, keys ...K) ([]*R, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	docs, err := find[D](ctx, t.c, t.ids(keys))
	return t.rows(docs), t.wrap("read", err)
}

func (t *table[K, R, D]) rows(docs []D) []*R {
	list := make([]*R, len(docs))
	for i := range docs {
		list[i] = t.row(&docs[i])
	}
	return list
}

func (t *table[K, R, D]) Find(ctx context.Context, q rows.Query[*R]) ([]*R, error) {
	opts := options.Find().SetSkip(int64(q.Skip)).SetLimit(int64(q.Limit))
	if len(q.Order) > 0 {
		opts.SetSort(t.order(q.Order))
	}
	switch {
	case q.Only != nil:
		shown := make([]string, len(q.Only))
		for i, c := range q.Only {
			shown[i] = t.field(c)
		}
		opts.SetProjection(only(shown...))
	case q.Lean:
		opts.SetProjection(bson.M{"row.message.payload": 0, "history": 0})
	}
	filter := t.filter(q.Where)
	if q.Bytes <= 0 {
		docs, err := find[D](ctx, t.c, filter, opts)
		return t.rows(docs), t.wrap("look into", err)
	}
	list, err := t.findUntil(ctx, q.Bytes, filter, opts)
	return list, t.wrap("look into", err)
}

// findUntil stops once the payloads of the rows have a size of limit.
func (t *table[K, R, D]) findUntil(ctx context.Context, limit int, filter bson.M, opts ...options.Lister[options.FindOptions]) ([]*R, error) {
	cursor, err := t.c.Find(ctx, filter, opts...)
	if err != nil {
		return nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx)) // what is left there ends by itself
	var list []*R
	for limit > 0 && cursor.Next(ctx) {
		var d D
		if err := cursor.Decode(&d); err != nil {
			return nil, err
		}
		r := t.row(&d)
		list = append(list, r)
		if b, ok := any(r).(interface{ Base() *rows.Row }); ok {
			limit -= len(b.Base().Message.Payload)
		}
	}
	return list, cursor.Err()
}

func (t *table[K, R, D]) order(list []rows.Order[*R]) bson.D {
	order := bson.D{}
	for _, o := range list {
		direction := 1
		if o.Falling {
			direction = -1
		}
		order = append(order, bson.E{Key: t.field(o.Column), Value: direction})
	}
	return order
}

var operators = map[rows.Op]string{
	rows.Equal: "$eq", rows.NotEqual: "$ne", rows.In: "$in", rows.NotIn: "$nin",
	rows.Below: "$lt", rows.AtMost: "$lte", rows.Above: "$gt", rows.AtLeast: "$gte",
}

// filter matches documents of which all conditions hold.
func (t *table[K, R, D]) filter(conditions []rows.Condition[*R]) bson.M {
	if len(conditions) == 0 {
		return bson.M{}
	}
	all := bson.A{}
	for _, c := range conditions {
		all = append(all, t.condition(c))
	}
	return bson.M{"$and": all}
}

func (t *table[K, R, D]) condition(c rows.Condition[*R]) bson.M {
	field := t.field(c.Column)
	switch c.Op {
	case rows.Any:
		lists := bson.A{}
		for _, list := range c.Any {
			lists = append(lists, t.filter(list))
		}
		return bson.M{"$or": lists}
	case rows.In, rows.NotIn:
		return bson.M{field: bson.M{operators[c.Op]: orEmpty(c.Values)}}
	case rows.Contains:
		text, _ := c.Values[0].(string)
		return bson.M{field: bson.M{"$regex": regexp.QuoteMeta(text), "$options": "i"}}
	}
	return bson.M{field: bson.M{operators[c.Op]: c.Values[0]}}
}

func (t *table[K, R, D]) Count(ctx context.Context, conditions ...rows.Condition[*R]) (int, error) {
	n, err := t.c.CountDocuments(ctx, t.filter(conditions))
	return int(n), t.wrap("count", err)
}

func (t *table[K, R, D]) Sums(ctx context.Context, since rows.Since, conditions ...rows.Condition[*R]) ([]rows.Sum, error) {
	var oldest any = "$row.enqueued_at"
	if since == rows.SinceDue {
		due := op("$add", time.UnixMilli(0), op("$multiply", "$row.message.deliver_at", 0.001))
		oldest = op("$cond", op("$gt", due, oldest), due, oldest)
	}
	cursor, err := t.c.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: t.filter(conditions)}},
		{{Key: "$group", Value: bson.M{"_id": bson.M{"topic": "$row.topic", "consumer": "$consumer"}, "count": bson.M{"$sum": int64(1)}, "oldest": bson.M{"$min": oldest}}}},
	})
	if err != nil {
		return nil, t.wrap("count", err)
	}
	var groups []struct {
		Of struct {
			Topic    string `bson:"topic"`
			Consumer string `bson:"consumer"`
		} `bson:"_id"`
		Count  int64     `bson:"count"`
		Oldest time.Time `bson:"oldest"`
	}
	err = cursor.All(ctx, &groups)
	sums := make([]rows.Sum, len(groups))
	for i, g := range groups {
		sums[i] = rows.Sum{Topic: g.Of.Topic, Consumer: g.Of.Consumer, Count: g.Count, Oldest: g.Oldest}
	}
	return sums, t.wrap("count", err)
}

func (t *table[K, R, D]) Add(ctx context.Context, list ...*R) error {
	if len(list) == 0 {
		return nil
	}
	docs := make([]D, len(list))
	for i, r := range list {
		docs[i] = t.doc(r)
	}
	_, err := t.c.InsertMany(ctx, docs)
	return t.wrap("add to", err)
}

func (t *table[K, R, D]) Put(ctx context.Context, list ...*R) error {
	if len(list) == 0 {
		return nil
	}
	models := make([]mongo.WriteModel, len(list))
	for i, r := range list {
		models[i] = mongo.NewReplaceOneModel().SetFilter(bson.M{"_id": t.id(t.key(r))}).SetReplacement(t.doc(r)).SetUpsert(true)
	}
	_, err := t.c.BulkWrite(ctx, models)
	return t.wrap("change", err)
}

func (t *table[K, R, D]) Delete(ctx context.Context, keys ...K) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := t.c.DeleteMany(ctx, t.ids(keys))
	return t.wrap("remove from", err)
}

// wrap says what was being done when the driver failed.
func (t *table[K, R, D]) wrap(what string, err error) error { return wrap(what+" "+t.c.Name(), err) }
