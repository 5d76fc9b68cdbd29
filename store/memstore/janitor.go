package memstore

import (
	"context"

	"github.com/waybill-go/waybill/janitor"
)

// CountExpired implements [janitor.Store].
func (s *Store) CountExpired(ctx context.Context, rows janitor.Rows) (n int64, err error) {
	if !ownKind(rows.Kind) {
		return s.engine.CountExpired(ctx, rows)
	}
	err = s.inTx(ctx, func(*Tx) error {
		n = int64(len(s.expired(rows)))
		return nil
	})
	return n, err
}

// PurgeExpired implements [janitor.Store]. Transactions run one after the other, so it is never
// busy.
func (s *Store) PurgeExpired(ctx context.Context, rows janitor.Rows, limit int) (n int64, err error) {
	if !ownKind(rows.Kind) {
		return s.engine.PurgeExpired(ctx, rows, limit)
	}
	err = s.inTx(ctx, func(tx *Tx) error {
		expired := s.expired(rows)
		expired = expired[:min(limit, len(expired))]
		for _, remove := range expired {
			remove(tx)
		}
		n = int64(len(expired))
		return nil
	})
	return n, err
}

// ownKind reports whether the rows of a kind are in none of the tables of [rows.Tx].
func ownKind(k janitor.Kind) bool {
	return k == janitor.Leases || k == janitor.Sagas || k == janitor.Responses
}

// expired returns a function for each row to remove, which removes it.
func (s *Store) expired(rows janitor.Rows) []func(tx *Tx) {
	limit := s.now().Add(-rows.OlderThan)
	switch {
	case rows.Kind == janitor.Sagas:
		return s.expiredSagas(limit, func(tenant string) bool { return rows.Tenant == "" || rows.Tenant == tenant })
	case rows.Tenant != "": // leases and responses belong to none
		return nil
	case rows.Kind == janitor.Leases:
		return s.expiredLeases(rows.OlderThan)
	}
	return removals(s.data.responses, func(r savedResponse) bool { return !r.until.After(limit) })
}

func removals[K comparable, V any](m map[K]V, expired func(V) bool) []func(tx *Tx) {
	var list []func(tx *Tx)
	for k, v := range m {
		if expired(v) {
			list = append(list, func(tx *Tx) { drop(tx, m, k) })
		}
	}
	return list
}
