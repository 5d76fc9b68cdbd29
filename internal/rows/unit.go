package rows

import (
	"context"
	"math"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/settleplan"
)

// ofUnit holds for what is in a unit.
func (c ofRow[V]) ofUnit(u settleplan.Unit) []Condition[V] {
	return []Condition[V]{c.Topic.is(u.Topic), c.Key.is(u.Key), c.Destination.is(u.Destination)}
}

// queue holds for the waiting rows of a unit, without those that wait alone.
func queue(u settleplan.Unit, more ...Condition[*Waiting]) Query[*Waiting] {
	return where(append(append(waits.ofUnit(u), waits.Alone.is(false)), more...)...).sorted(waits.Position.rising())
}

// parkedFrom returns the lowest position at which a dead letter parks a unit, the highest possible one if none
// does.
func (t *Tx) parkedFrom(ctx context.Context, u settleplan.Unit) (int64, error) {
	parking := where(append(letters.ofUnit(u), letters.Parks.is(true))...).sorted(letters.Position.rising())
	l, err := first(ctx, t.Letters, parking)
	if err != nil || l == nil {
		return math.MaxInt64, err
	}
	return l.Row.Position, nil
}

// waitsBefore reports whether a row is behind something in its unit.
func (t *Tx) waitsBefore(ctx context.Context, r *Row) (bool, error) {
	u := r.unit()
	if u.Key == "" {
		return false, nil
	}
	earlier, err := first(ctx, t.Waiting, queue(u, waits.Position.below(r.Position)))
	if err != nil || earlier != nil {
		return err == nil, err
	}
	parked, err := t.parkedFrom(ctx, u)
	return parked < r.Position, err
}

// promote releases the first waiting row of a unit if it is no longer behind anything.
func (t *Tx) promote(ctx context.Context, u settleplan.Unit) error {
	if u.Key == "" {
		return nil
	}
	w, err := first(ctx, t.Waiting, queue(u))
	if err != nil || w == nil || !w.DueAt.IsZero() {
		return err
	}
	parked, err := t.parkedFrom(ctx, u)
	if err != nil || parked < w.Position {
		return err
	}
	w.DueAt = t.Now
	return t.Waiting.Put(ctx, w)
}

// behind returns how many rows of a unit wait after a position.
func (t *Tx) behind(ctx context.Context, u settleplan.Unit, position int64) (int, error) {
	if u.Key == "" {
		return 0, nil
	}
	return t.Waiting.Count(ctx, queue(u, waits.Position.above(position)).Where...)
}

// blocked returns those topics and keys of rows in which something waits, or which a dead letter parks: what
// follows must wait, too, whatever its destinations will be.
func (t *Tx) blocked(ctx context.Context, rows []*Row) (map[[2]string]bool, error) {
	topics, keys := topicsAndKeys(rows)
	blocked := make(map[[2]string]bool)
	if len(keys) == 0 {
		return blocked, nil
	}
	waiting, err := t.Waiting.Find(ctx, where(waits.Topic.in(topics...), waits.Key.in(keys...), waits.Alone.is(false)).only(waits.Topic.Name, waits.Key.Name))
	if err != nil {
		return nil, err
	}
	for _, w := range waiting {
		blocked[w.topicKey()] = true
	}
	parking, err := t.Letters.Find(ctx, where(letters.Topic.in(topics...), letters.Key.in(keys...), letters.Parks.is(true)).only(letters.Topic.Name, letters.Key.Name))
	for _, l := range parking {
		blocked[l.Row.topicKey()] = true
	}
	return blocked, err
}

// topicsAndKeys are those of the rows that have a key; both, because indexes begin with the topic.
func topicsAndKeys(rows []*Row) (topics, keys []string) {
	for _, r := range rows {
		if r.Message.Key != "" {
			topics, keys = append(topics, r.Message.Address()), append(keys, r.Message.Key)
		}
	}
	return topics, keys
}

// CountParked implements [contract.Source]. Round trips: 1, and 1 for each key.
func (e *Engine[S]) CountParked(ctx context.Context, lanes []contract.Lane) (keys, messages int, err error) {
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		keys, messages = 0, 0
		parking, err := t.Letters.Find(ctx, where(letters.Parks.is(true), letters.Lane.in(numbersOf(lanes)...)).sorted(letters.Position.rising()))
		if err != nil {
			return err
		}
		seen := make(map[settleplan.Unit]bool)
		for _, l := range parking {
			u := l.Row.unit()
			if seen[u] {
				continue
			}
			seen[u] = true
			n, err := t.behind(ctx, u, l.Row.Position)
			if err != nil {
				return err
			}
			keys, messages = keys+1, messages+n
		}
		return nil
	})
	return keys, messages, err
}
