package mongostore

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/janitor"
)

// CountExpired implements [janitor.Store].
func (s *Store) CountExpired(ctx context.Context, rows janitor.Rows) (n int64, err error) {
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		c, filter, err := t.expired(rows)
		if err != nil {
			return err
		}
		if rows.Kind == janitor.Letters {
			letters, err := t.expiredLetters(ctx, filter, 0)
			n = int64(len(letters))
			return err
		}
		n, err = c.CountDocuments(ctx, filter)
		return err
	})
	return n, err
}

// PurgeExpired implements [janitor.Store]. It is never busy: two calls at once clash, and the
// second finds what the first has left.
func (s *Store) PurgeExpired(ctx context.Context, rows janitor.Rows, limit int) (n int64, err error) {
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		n = 0
		c, filter, err := t.expired(rows)
		if err != nil || limit <= 0 {
			return err
		}
		if rows.Kind == janitor.Letters {
			n, err = t.purgeLetters(ctx, filter, limit)
			return err
		}
		ids, err := idsOf(ctx, c, filter, limit)
		if err != nil || len(ids) == 0 {
			return err
		}
		done, err := c.DeleteMany(ctx, bson.M{"_id": in(ids)})
		if err == nil {
			n = done.DeletedCount
		}
		return err
	})
	return n, err
}

// expired returns where the rows are, and what matches those that may go.
func (t *tx) expired(rows janitor.Rows) (*mongo.Collection, bson.M, error) {
	limit := t.now.Add(-rows.OlderThan)
	switch rows.Kind {
	case janitor.Inbox:
		return t.inbox, ofTenant("_id.tenant", rows.Tenant, expiredRecord(limit)), nil
	case janitor.Attempts:
		return t.attempts, ofTenant("_id.tenant", rows.Tenant, bson.M{"due_at": bson.M{"$lte": limit}}), nil
	case janitor.Letters:
		return t.letters, ofTenant("row.message.tenant", rows.Tenant, expiredLetter(limit)), nil
	case janitor.Leases:
		if rows.Tenant != "" { // it is in the key, if at all
			return t.leases, bson.M{"_id": in[string](nil)}, nil
		}
		return t.leases, expiredKey(t.now, limit), nil
	case janitor.Sagas, janitor.Responses: // it keeps none; the server removes responses
		return t.audit, bson.M{"_id": in[int64](nil)}, nil
	case janitor.Audit:
		if rows.Tenant != "" { // it belongs to none
			return t.audit, bson.M{"_id": in[int64](nil)}, nil
		}
		return t.audit, bson.M{"at": bson.M{"$lte": limit}}, nil
	}
	return nil, nil, fmt.Errorf("there are no rows of the kind %q to remove", rows.Kind)
}

func ofTenant(field, tenant string, filter bson.M) bson.M {
	set(filter, field, tenant)
	return filter
}

// expiredLetter matches letters that are not on their way, and to which nothing has happened
// since the limit.
func expiredLetter(limit time.Time) bson.M {
	return bson.M{
		"requeued_at": nil,
		"$or": bson.A{
			bson.M{"resolved_at": bson.M{"$lte": limit}},
			bson.M{"resolved_at": nil, "last_failed_at": bson.M{"$lte": limit}},
		},
	}
}

// expiredLetters returns up to limit letters, without those that something waits behind; 0 is
// no limit.
func (t *tx) expiredLetters(ctx context.Context, filter bson.M, limit int) ([]letterDoc, error) {
	docs, err := find[letterDoc](ctx, t.letters, filter, sorted("_id"))
	if err != nil {
		return nil, err
	}
	var list []letterDoc
	for _, l := range docs {
		behind := 0
		if l.Parks {
			if behind, err = t.behind(ctx, l.Row.unit(), l.Row.Position); err != nil {
				return nil, err
			}
		}
		if behind == 0 && (limit == 0 || len(list) < limit) {
			list = append(list, l)
		}
	}
	return list, nil
}

// purgeLetters removes, with a consumer's letter, the record that says so.
func (t *tx) purgeLetters(ctx context.Context, filter bson.M, limit int) (int64, error) {
	letters, err := t.expiredLetters(ctx, filter, limit)
	if err != nil || len(letters) == 0 {
		return 0, err
	}
	for _, l := range letters {
		if err := t.lockLanes(ctx, l.Row.Lane); err != nil {
			return 0, err
		}
		if err := remove(ctx, t.letters, l.ID); err != nil {
			return 0, err
		}
		if _, err := t.inbox.DeleteOne(ctx, bson.M{"_id": l.InboxKey, "dead": true}); err != nil {
			return 0, err
		}
	}
	n := int64(len(letters))
	return n, t.note(ctx, deadletter.ActCleanup, deadletter.Act{By: "janitor"}, deadletter.Entry{Detail: fmt.Sprintf("%d letters", n)})
}
