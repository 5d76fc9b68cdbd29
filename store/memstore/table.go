package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-go/waybill/internal/rows"
)

// table returns one of the store's tables. What changes it is the open transaction.
func table[K comparable, R any](s *Store, m map[K]*R, key func(*R) K) rows.MapTable[K, R] {
	return rows.MapTable[K, R]{Rows: m, Key: key, Set: func(k K, r *R) {
		if r == nil {
			drop(s.open, m, k)
		} else {
			put(s.open, m, k, r)
		}
	}}
}

// archive is the table of what was published, by the order of publishing.
type archive struct {
	rows.MapTable[any, rows.Archived]
	data *data
}

func (a archive) Add(ctx context.Context, list ...*rows.Archived) error {
	for _, r := range list {
		a.data.published++
		r.Key = a.data.published
	}
	return a.MapTable.Add(ctx, list...)
}

// driver implements [rows.Driver]. Transactions run one after the other, so there is nothing to
// lock.
type driver struct{ store *Store }

func (d driver) Draw(_ context.Context, c rows.Counter, n int) (int64, time.Time, error) {
	first := d.store.data.drawn[c] + 1
	d.store.data.drawn[c] += int64(n) // never taken back
	return first, d.store.now().UTC(), nil
}

func (driver) Lock(context.Context, ...int) error { return nil }

// database implements [rows.Store].
type database struct{ store *Store }

// Run never runs fn again: transactions do not conflict.
func (d database) Run(ctx context.Context, _ func() bool, fn func(ctx context.Context, t *rows.Tx, tx *Tx) error) error {
	return d.store.inTx(ctx, func(tx *Tx) error { return fn(ctx, tx.rows(), tx) })
}

// On implements [rows.Store].
func (d database) On(ctx context.Context, tx *Tx) (context.Context, *rows.Tx, error) {
	if err := tx.given(); err != nil {
		return nil, nil, err
	}
	return ctx, tx.rows(), nil
}

// WakeRelay implements [rows.Store].
func (d database) WakeRelay() { d.store.WakeRelay() }

// sorted returns the values of m that keep is true for, in the order of by.
func sorted[K comparable, V any, O cmp.Ordered](m map[K]V, keep func(V) bool, by func(V) O) []V {
	var list []V
	for _, v := range m {
		if keep(v) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b V) int { return cmp.Compare(by(a), by(b)) })
	return list
}
