package mongostore

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/traffic"
)

// trafficDoc is a row of traffic.
type trafficDoc struct {
	ID   trafficID `bson:"_id"`
	Data []byte    `bson:"data"`
}

// trafficID identifies a row. Its step is in seconds, its time in seconds since 1970.
type trafficID struct {
	Step   int64  `bson:"step"`
	At     int64  `bson:"at"`
	Writer string `bson:"writer"`
}

func idOfTraffic(r traffic.Row) trafficID {
	return trafficID{int64(r.Step / time.Second), r.At.Unix(), r.Writer}
}

func trafficOf(r traffic.Row) trafficDoc { return trafficDoc{idOfTraffic(r), r.Data} }

func (d *trafficDoc) row() traffic.Row {
	return traffic.Row{Step: time.Duration(d.ID.Step) * time.Second, At: time.Unix(d.ID.At, 0).UTC(), Writer: d.ID.Writer, Data: d.Data}
}

// AddTraffic implements [traffic.Store].
func (s *Store) AddTraffic(ctx context.Context, row traffic.Row) error {
	_, err := s.traffic.InsertOne(outside(ctx), trafficOf(row))
	if mongo.IsDuplicateKeyError(err) {
		return nil
	}
	return wrap("add traffic", err)
}

// Traffic implements [traffic.Store].
func (s *Store) Traffic(ctx context.Context, step time.Duration, from, to time.Time) ([]traffic.Row, error) {
	filter := bson.M{"_id.step": int64(step / time.Second), "_id.at": bson.M{"$gte": from.Unix(), "$lt": to.Unix()}}
	docs, err := find[trafficDoc](outside(ctx), s.traffic, filter, options.Find().SetSort(by("_id.step", "_id.at", "_id.writer")))
	if err != nil {
		return nil, wrap("read traffic", err)
	}
	list := make([]traffic.Row, len(docs))
	for i := range docs {
		list[i] = docs[i].row()
	}
	return list, nil
}

var errTrafficReplaced = waybill.ConflictError(errors.New("a row of traffic was replaced by another process"))

// ReplaceTraffic implements [traffic.Store].
func (s *Store) ReplaceTraffic(ctx context.Context, old []traffic.Row, sum *traffic.Row) error {
	never := func() bool { return false } // a conflict is the caller's
	return database{s}.Run(ctx, never, func(ctx context.Context, _ *rows.Tx, _ *mongo.Session) error {
		for _, r := range old {
			done, err := s.traffic.DeleteOne(ctx, bson.M{"_id": idOfTraffic(r)})
			if err != nil {
				return wrap("replace traffic", err)
			}
			if done.DeletedCount == 0 {
				return errTrafficReplaced
			}
		}
		if sum == nil {
			return nil
		}
		_, err := s.traffic.InsertOne(ctx, trafficOf(*sum))
		return wrap("replace traffic", err)
	})
}
