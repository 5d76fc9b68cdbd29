package mongostore

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill/inbox/lease"
)

// TryBeginAll implements [lease.BatchStore].
func (l *Leases) TryBeginAll(ctx context.Context, reqs []lease.Request) ([]lease.Answer, error) {
	keys, ids := make([]string, len(reqs)), make([]string, len(reqs))
	updates := make([]mongo.Pipeline, len(reqs))
	for i := range reqs {
		if err := reqs[i].Validate(); err != nil {
			return nil, err
		}
		keys[i], ids[i] = reqs[i].Key, reqs[i].LeaseID()
		updates[i] = l.begin(reqs[i], ids[i])
	}
	docs, err := l.changeAll(ctx, keys, updates, true)
	if err != nil {
		return nil, wrap("begin keys", err)
	}
	answers := make([]lease.Answer, len(reqs))
	for i, key := range keys {
		if d, ok := docs[key]; ok {
			answers[i] = d.begun(reqs[i], ids[i])
		} else { // not acquired, and removed between the two round trips: to be requested again
			answers[i].Status = lease.Busy
		}
	}
	return answers, nil
}

// MarkAllProcessed implements [lease.BatchStore].
func (l *Leases) MarkAllProcessed(ctx context.Context, leases []lease.Lease) ([]lease.Status, error) {
	keys := make([]string, len(leases))
	updates := make([]mongo.Pipeline, len(leases))
	for i, own := range leases {
		if err := lease.ValidateKey(own.Key); err != nil {
			return nil, err
		}
		keys[i], updates[i] = own.Key, l.mark(own.ID)
	}
	docs, err := l.changeAll(ctx, keys, updates, false)
	if err != nil {
		return nil, wrap("mark keys", err)
	}
	statuses := make([]lease.Status, len(leases))
	for i, own := range leases {
		statuses[i] = statusIn(docs[own.Key], own.ID)
	}
	return statuses, nil
}

// changeAll runs a pipeline on each key and then reads all of them.
func (l *Leases) changeAll(ctx context.Context, keys []string, updates []mongo.Pipeline, insert bool) (map[string]*leaseDoc, error) {
	if err := lease.ValidateBatch(keys); err != nil || len(keys) == 0 {
		return nil, err
	}
	ctx = outside(ctx)
	models := make([]mongo.WriteModel, len(keys))
	for i, key := range keys {
		models[i] = mongo.NewUpdateOneModel().SetFilter(bson.M{"_id": key}).SetUpdate(updates[i]).SetUpsert(insert)
	}
	for len(models) > 0 {
		_, err := l.keys.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		if models, err = insertedMeanwhile(err); err != nil {
			return nil, err
		}
	}
	found, err := find[*leaseDoc](ctx, l.keys, bson.M{"_id": in(keys)}, options.Find().SetProjection(l.shownFields()))
	if err != nil {
		return nil, err
	}
	docs := make(map[string]*leaseDoc, len(found))
	for _, d := range found {
		docs[d.Key] = d
	}
	return docs, nil
}

// insertedMeanwhile returns the updates that failed because somebody else has inserted their
// key at the same time, to be done again, or the error if there is another one.
func insertedMeanwhile(err error) ([]mongo.WriteModel, error) {
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) || bulk.WriteConcernError != nil {
		return nil, err
	}
	var again []mongo.WriteModel
	for _, failed := range bulk.WriteErrors {
		if !mongo.IsDuplicateKeyError(failed) {
			return nil, err
		}
		again = append(again, failed.Request)
	}
	return again, nil
}
