package mongostore

import (
	"context"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/settleplan"
)

// ofUnit matches what is in a unit.
func ofUnit(u settleplan.Unit) bson.M {
	return bson.M{"row.topic": u.Topic, "row.key": u.Key, "row.destination": u.Destination}
}

// queueOf matches the waiting rows of a unit, without those that wait alone.
func queueOf(u settleplan.Unit) bson.M {
	filter := ofUnit(u)
	filter["alone"] = false
	return filter
}

// parkedFrom returns the lowest position at which a letter parks a unit, the highest there is if none does.
func (t *tx) parkedFrom(ctx context.Context, u settleplan.Unit) (int64, error) {
	filter := ofUnit(u)
	filter["parks"] = true
	l, found, err := findOne[letterDoc](ctx, t.letters, filter, "row.position")
	if err != nil || !found {
		return math.MaxInt64, err
	}
	return l.Row.Position, nil
}

// waitsBefore reports whether a row at a position of a unit is behind something in it.
func (t *tx) waitsBefore(ctx context.Context, u settleplan.Unit, position int64) (bool, error) {
	if u.Key == "" {
		return false, nil
	}
	filter := queueOf(u)
	filter["row.position"] = bson.M{"$lt": position}
	waits, err := exists(ctx, t.waiting, filter)
	if waits || err != nil {
		return waits, err
	}
	first, err := t.parkedFrom(ctx, u)
	return first < position, err
}

// promote lets the first waiting row of a unit go if it is behind nothing any more.
func (t *tx) promote(ctx context.Context, u settleplan.Unit) error {
	if u.Key == "" {
		return nil
	}
	first, found, err := findOne[waitingDoc](ctx, t.waiting, queueOf(u), "row.position")
	if err != nil || !found || first.DueAt != nil {
		return err
	}
	parked, err := t.parkedFrom(ctx, u)
	if err != nil || parked < first.Row.Position {
		return err
	}
	first.DueAt = &t.now
	return save(ctx, t.waiting, first.ID, first)
}

// behind returns how many rows of a unit wait after a position.
func (t *tx) behind(ctx context.Context, u settleplan.Unit, position int64) (int, error) {
	if u.Key == "" {
		return 0, nil
	}
	filter := queueOf(u)
	filter["row.position"] = bson.M{"$gt": position}
	n, err := t.waiting.CountDocuments(ctx, filter)
	return int(n), err
}

// blockedKeys returns the topics and keys among those of the rows that something waits in, or
// that a letter parks.
func (t *tx) blockedKeys(ctx context.Context, rows []readyDoc) (map[[2]string]bool, error) {
	var topics, keys []string // both, because the index begins with the topic
	for _, r := range rows {
		if r.Row.Key != "" {
			topics, keys = append(topics, r.Row.Topic), append(keys, r.Row.Key)
		}
	}
	blocked := make(map[[2]string]bool)
	if len(keys) == 0 {
		return blocked, nil
	}
	unitOnly := options.Find().SetProjection(only("row.topic", "row.key"))
	waiting, err := find[waitingDoc](ctx, t.waiting, bson.M{"row.topic": in(topics), "row.key": in(keys), "alone": false}, unitOnly)
	if err != nil {
		return nil, err
	}
	for _, w := range waiting {
		blocked[[2]string{w.Row.Topic, w.Row.Key}] = true
	}
	letters, err := find[letterDoc](ctx, t.letters, bson.M{"row.topic": in(topics), "row.key": in(keys), "parks": true}, unitOnly)
	for _, l := range letters {
		blocked[[2]string{l.Row.Topic, l.Row.Key}] = true
	}
	return blocked, err
}

// CountParked implements [contract.Source].
func (s *Store) CountParked(ctx context.Context, lanes []contract.Lane) (keys, messages int, err error) {
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		keys, messages = 0, 0
		parking, err := find[letterDoc](ctx, s.letters, bson.M{"parks": true, "row.lane": in(numbersOf(lanes))}, sorted("row.position"))
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

func numbersOf(lanes []contract.Lane) []int {
	numbers := make([]int, len(lanes))
	for i, l := range lanes {
		numbers[i] = l.Number
	}
	return numbers
}
