package mongostore

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
)

// AddRecord implements [inbox.Recorder]. MongoDB does not let one transaction wait for
// another: if another one holds an uncommitted record with the key, this one is over and the
// error a conflict.
func (s *Store) AddRecord(ctx context.Context, session *mongo.Session, rec inbox.Record) (bool, error) {
	ctx, err := within(ctx, session)
	if err != nil {
		return false, err
	}
	now, err := serverTime(ctx, s.db, &s.cfg)
	if err != nil {
		return false, wrap("read the server's clock", err)
	}
	there, err := exists(ctx, s.inbox, bson.M{"_id": keyDoc(rec.Key)})
	if err != nil || there {
		return false, wrap("look for an inbox record", err)
	}
	if rec.Retried {
		if err := remove(ctx, s.attempts, keyDoc(rec.Key)); err != nil {
			return false, wrap("clear attempts", err)
		}
	}
	_, err = s.inbox.InsertOne(ctx, recordOf(rec, now))
	return err == nil, wrap("add an inbox record", err)
}

// FindRecord implements [inbox.Recorder].
func (s *Store) FindRecord(ctx context.Context, session *mongo.Session, key inbox.Key) (inbox.StoredRecord, bool, error) {
	ctx, err := within(ctx, session)
	if err != nil {
		return inbox.StoredRecord{}, false, err
	}
	d, found, err := findOne[recordDoc](ctx, s.inbox, bson.M{"_id": keyDoc(key)})
	if err != nil || !found {
		return inbox.StoredRecord{}, false, wrap("look for an inbox record", err)
	}
	return inbox.StoredRecord{Record: d.record(), ProcessedAt: d.ProcessedAt, Dead: d.Dead}, true, nil
}

// RemoveRecords implements [inbox.Recorder].
func (s *Store) RemoveRecords(ctx context.Context, session *mongo.Session, tenant string, age time.Duration, limit int) (int, error) {
	ctx, err := within(ctx, session)
	switch {
	case err != nil:
		return 0, err
	case tenant == "":
		return 0, &waybill.InvalidError{Field: "tenant", Reason: "is required"}
	}
	if limit <= 0 {
		return 0, nil // MongoDB takes 0 for no limit
	}
	now, err := serverTime(ctx, s.db, &s.cfg)
	if err != nil {
		return 0, wrap("read the server's clock", err)
	}
	ids, err := idsOf(ctx, s.inbox, ofTenant("_id.tenant", tenant, expiredRecord(now.Add(-age))), limit)
	if err != nil || len(ids) == 0 {
		return 0, wrap("look for old inbox records", err)
	}
	done, err := s.inbox.DeleteMany(ctx, bson.M{"_id": in(ids)})
	if err != nil {
		return 0, wrap("remove inbox records", err)
	}
	return int(done.DeletedCount), nil
}

// expiredRecord matches what was processed before the limit, and is no dead letter's.
func expiredRecord(limit time.Time) bson.M {
	return bson.M{"dead": false, "processed_at": bson.M{"$lte": limit}}
}
