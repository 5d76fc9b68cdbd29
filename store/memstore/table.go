package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill/internal/rows"
)

// table implements [rows.Table] over a map. What a row points to is never changed.
type table[K comparable, R any] struct {
	tx  *Tx
	m   map[K]*R
	key func(*R) K
}

func (t table[K, R]) Get(_ context.Context, keys ...K) ([]*R, error) {
	var list []*R
	for i, k := range keys {
		if r, ok := t.m[k]; ok && !slices.Contains(keys[:i], k) {
			c := *r
			list = append(list, &c)
		}
	}
	return list, nil
}

func (t table[K, R]) Find(_ context.Context, q rows.Query[*R]) ([]*R, error) {
	var list []*R
	for _, r := range t.m {
		if q.Holds(r) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *R) int {
		for _, o := range q.Order {
			if c := o.Compare(a, b); c != 0 {
				return c
			}
		}
		return 0
	})
	list = list[min(q.Skip, len(list)):]
	if q.Limit > 0 {
		list = list[:min(q.Limit, len(list))]
	}
	list = list[:within(q.Bytes, list)]
	for i, r := range list {
		c := *r
		list[i] = &c
	}
	return list, nil
}

// within returns how many rows of a list it takes until their payloads have a size; 0 is no limit.
func within[R any](bytes int, list []*R) int {
	for i, r := range list {
		if b, ok := any(r).(interface{ Base() *rows.Row }); ok && bytes > 0 {
			if bytes -= len(b.Base().Message.Payload); bytes <= 0 {
				return i + 1
			}
		}
	}
	return len(list)
}

func (t table[K, R]) Count(_ context.Context, conditions ...rows.Condition[*R]) (int, error) {
	n, q := 0, rows.Query[*R]{Where: conditions}
	for _, r := range t.m {
		if q.Holds(r) {
			n++
		}
	}
	return n, nil
}

func (t table[K, R]) Sums(_ context.Context, since rows.Since, conditions ...rows.Condition[*R]) ([]rows.Sum, error) {
	sums, q := make(map[[2]string]rows.Sum), rows.Query[*R]{Where: conditions}
	for _, r := range t.m {
		if !q.Holds(r) {
			continue
		}
		next := sumOf(r, since)
		of := [2]string{next.Topic, next.Consumer}
		if s, ok := sums[of]; ok {
			next.Count += s.Count
			if s.Oldest.Before(next.Oldest) {
				next.Oldest = s.Oldest
			}
		}
		sums[of] = next
	}
	return sorted(sums, func(rows.Sum) bool { return true }, func(s rows.Sum) string { return s.Topic + "\x00" + s.Consumer }), nil
}

// sumOf is the sum of one row that holds a message.
func sumOf(row any, since rows.Since) rows.Sum {
	var s rows.Sum
	b, ok := row.(interface{ Base() *rows.Row })
	if !ok {
		return s
	}
	r := b.Base()
	s = rows.Sum{Topic: r.Message.Address(), Count: 1, Oldest: r.EnqueuedAt}
	if since == rows.SinceDue && r.Message.DeliverAt.After(s.Oldest) {
		s.Oldest = r.Message.DeliverAt
	}
	if l, ok := row.(*rows.Letter); ok {
		s.Consumer = l.Consumer
	}
	return s
}

func (t table[K, R]) Add(ctx context.Context, list ...*R) error {
	for _, r := range list {
		if _, there := t.m[t.key(r)]; there {
			return fmt.Errorf("the row %v is there already", t.key(r))
		}
		if err := t.Put(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (t table[K, R]) Put(_ context.Context, list ...*R) error {
	for _, r := range list {
		c := *r
		put(t.tx, t.m, t.key(r), &c)
	}
	return nil
}

func (t table[K, R]) Delete(_ context.Context, keys ...K) error {
	for _, k := range keys {
		drop(t.tx, t.m, k)
	}
	return nil
}

// archive is the table of what was published, by the order of publishing.
type archive struct{ table[any, rows.Archived] }

func (a archive) Add(ctx context.Context, list ...*rows.Archived) error {
	for _, r := range list {
		d := &a.tx.store.data
		d.published++
		r.Key = d.published
	}
	return a.table.Add(ctx, list...)
}

// driver implements [rows.Driver]. Transactions are one at a time, so there is nothing to lock.
type driver struct{ store *Store }

func (d driver) Draw(_ context.Context, c rows.Counter, n int) (int64, time.Time, error) {
	first := d.store.data.drawn[c] + 1
	d.store.data.drawn[c] += int64(n) // never taken back
	return first, d.store.now().UTC(), nil
}

func (driver) Lock(context.Context, ...int) error { return nil }

// database implements [rows.Store].
type database struct{ store *Store }

// Run never runs fn again: no transaction meets another.
func (d database) Run(ctx context.Context, _ func() bool, fn func(ctx context.Context, t *rows.Tx, tx *Tx) error) error {
	return d.store.inTx(ctx, func(tx *Tx) error { return fn(ctx, tx.rows(), tx) })
}

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
