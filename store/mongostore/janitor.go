package mongostore

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/janitor"
)

// CountExpired implements [janitor.Store]. The store keeps no sagas, and the server removes responses.
func (s *Store) CountExpired(ctx context.Context, r janitor.Rows) (n int64, err error) {
	if !leasesOfAll(r) {
		return s.engine.CountExpired(ctx, r)
	}
	err = database{s}.Run(ctx, nil, func(ctx context.Context, t *rows.Tx, _ *mongo.Session) error {
		n, err = s.leases.CountDocuments(ctx, expiredKey(t.Now, t.Now.Add(-r.OlderThan)))
		return err
	})
	return n, err
}

// leasesOfAll reports whether the rows are leases, which belong to no tenant.
func leasesOfAll(r janitor.Rows) bool { return r.Kind == janitor.Leases && r.Tenant == "" }

// PurgeExpired implements [janitor.Store]. It is never busy: two calls at once clash, and the
// second finds what the first has left.
func (s *Store) PurgeExpired(ctx context.Context, r janitor.Rows, limit int) (n int64, err error) {
	if !leasesOfAll(r) || limit <= 0 {
		return s.engine.PurgeExpired(ctx, r, limit)
	}
	err = database{s}.Run(ctx, nil, func(ctx context.Context, t *rows.Tx, _ *mongo.Session) error {
		ids, err := idsOf(ctx, s.leases, expiredKey(t.Now, t.Now.Add(-r.OlderThan)), limit)
		if n = 0; err != nil || len(ids) == 0 {
			return err
		}
		done, err := s.leases.DeleteMany(ctx, bson.M{"_id": in(ids)})
		if err == nil {
			n = done.DeletedCount
		}
		return err
	})
	return n, err
}
