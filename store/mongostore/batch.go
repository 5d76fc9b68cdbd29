package mongostore

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill/inbox"
)

// ProcessBatch implements [inbox.Batcher]. It looks for the records before it inserts those
// that are missing, because a duplicate key would end the transaction.
func (s *Store) ProcessBatch(ctx context.Context, recs []inbox.Record, fn func(ctx context.Context, session *mongo.Session, fresh []int) error) ([]inbox.Outcome, error) {
	if err := inbox.ValidateBatch(recs); err != nil {
		return nil, err
	}
	outcomes := make([]inbox.Outcome, len(recs))
	if len(recs) == 0 {
		return outcomes, nil
	}
	began := false
	err := s.repeat(ctx, func(err error) bool { return !began && isClash(err) }, func(ctx context.Context, t *tx) error {
		fresh, err := t.gate(ctx, recs, outcomes)
		if err != nil || len(fresh) == 0 {
			return err
		}
		began = true
		return fn(ctx, t.session, fresh)
	})
	if err != nil {
		return nil, err
	}
	s.WakeRelay() // the handler may have enqueued
	return outcomes, nil
}

// gate inserts the records that are not there, returns their places, and says what became of
// the others.
func (t *tx) gate(ctx context.Context, recs []inbox.Record, outcomes []inbox.Outcome) ([]int, error) {
	keys := make([]keyDoc, len(recs))
	var retried []keyDoc
	for i, rec := range recs {
		keys[i] = keyDoc(rec.Key)
		if rec.Retried {
			retried = append(retried, keys[i])
		}
	}
	found, err := find[recordDoc](ctx, t.inbox, bson.M{"_id": in(keys)})
	if err != nil {
		return nil, err
	}
	seen := make(map[keyDoc]*recordDoc, len(found))
	for i := range found {
		seen[found[i].Key] = &found[i]
	}
	var fresh []int
	var missing []recordDoc
	for i, rec := range recs {
		outcomes[i] = inbox.Processed
		if d, ok := seen[keys[i]]; ok {
			outcomes[i] = d.outcome(rec)
			continue
		}
		fresh = append(fresh, i)
		missing = append(missing, recordOf(rec, t.now))
	}
	if err := insertAll(ctx, t.inbox, missing); err != nil || len(retried) == 0 {
		return fresh, err
	}
	_, err = t.attempts.DeleteMany(ctx, bson.M{"_id": in(retried)})
	return fresh, err
}
