package rows

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// MapTable implements [Table] over a map, for stores that have their rows in memory. What a row points to is never
// changed.
type MapTable[K comparable, R any] struct {
	Rows map[K]*R
	Key  func(*R) K
	Set  func(key K, r *R) // changes Rows, so that it can be undone; nil removes the row
}

// Get implements [Table].
func (t MapTable[K, R]) Get(_ context.Context, keys ...K) ([]*R, error) {
	var list []*R
	for i, k := range keys {
		if r, ok := t.Rows[k]; ok && !slices.Contains(keys[:i], k) {
			list = append(list, r)
		}
	}
	return copied(list), nil
}

// Find implements [Table].
func (t MapTable[K, R]) Find(_ context.Context, q Query[*R]) ([]*R, error) {
	list := t.matching(q.Where)
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
	return copied(list[:within(q.Bytes, list)]), nil
}

// copied makes a list point to copies of its rows.
func copied[R any](list []*R) []*R {
	own := make([]R, len(list))
	for i, r := range list {
		own[i] = *r
		list[i] = &own[i]
	}
	return list
}

func (t MapTable[K, R]) matching(conditions []Condition[*R]) []*R {
	var list []*R
	for _, r := range t.Rows {
		if all(conditions, r) {
			list = append(list, r)
		}
	}
	return list
}

// within returns the number of rows of a list until their payloads reach a size; 0 is no limit.
func within[R any](bytes int, list []*R) int {
	if bytes <= 0 {
		return len(list)
	}
	for i, r := range list {
		if b, ok := any(r).(based); ok {
			if bytes -= len(b.Base().Message.Payload); bytes <= 0 {
				return i + 1
			}
		}
	}
	return len(list)
}

// Count implements [Table].
func (t MapTable[K, R]) Count(_ context.Context, conditions ...Condition[*R]) (int, error) {
	return len(t.matching(conditions)), nil
}

// Sums implements [Table].
func (t MapTable[K, R]) Sums(_ context.Context, since Since, conditions ...Condition[*R]) ([]Sum, error) {
	sums := make(map[[2]string]Sum)
	for _, r := range t.matching(conditions) {
		b, ok := any(r).(based)
		if !ok {
			continue
		}
		next := sumOf(b, since)
		of := [2]string{next.Topic, next.Consumer}
		if s, ok := sums[of]; ok {
			next.Count += s.Count
			if s.Oldest.Before(next.Oldest) {
				next.Oldest = s.Oldest
			}
		}
		sums[of] = next
	}
	return slices.Collect(maps.Values(sums)), nil
}

// sumOf is the sum of one row.
func sumOf(b based, since Since) Sum {
	r := b.Base()
	s := Sum{Topic: r.Message.Address(), Count: 1, Oldest: r.EnqueuedAt}
	if since == SinceDue && r.Message.DeliverAt.After(s.Oldest) {
		s.Oldest = r.Message.DeliverAt
	}
	if l, ok := b.(*Letter); ok {
		s.Consumer = l.Consumer
	}
	return s
}

// Add implements [Table].
func (t MapTable[K, R]) Add(ctx context.Context, list ...*R) error {
	for _, r := range list {
		if _, there := t.Rows[t.Key(r)]; there {
			return fmt.Errorf("the row %v is there already", t.Key(r))
		}
		if err := t.Put(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// Put implements [Table].
func (t MapTable[K, R]) Put(_ context.Context, list ...*R) error {
	for _, r := range list {
		c := *r
		t.Set(t.Key(r), &c)
	}
	return nil
}

// Delete implements [Table].
func (t MapTable[K, R]) Delete(_ context.Context, keys ...K) error {
	for _, k := range keys {
		if _, there := t.Rows[k]; there {
			t.Set(k, nil)
		}
	}
	return nil
}
