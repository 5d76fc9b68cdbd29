package memstore

import (
	"context"
	"math"
	"slices"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/settleplan"
)

// unitOf returns what the order of a row is kept by. Its key is empty if there is no order.
func unitOf(r *row, destination string) settleplan.Unit {
	return settleplan.Unit{Topic: r.message.Address(), Key: r.message.Key, Destination: destination}
}

// queue returns the waiting rows of a unit by position, without those that wait alone.
func (d *data) queue(u settleplan.Unit) []waitingRow {
	if u.Key == "" {
		return nil
	}
	return sorted(d.waiting, func(w waitingRow) bool { return !w.alone && unitOf(&w.row, w.destination) == u },
		func(w waitingRow) int64 { return w.position })
}

// parkedFrom returns the lowest position at which a letter parks a unit, the highest there is if none does.
func (d *data) parkedFrom(u settleplan.Unit) int64 {
	first := int64(math.MaxInt64)
	for _, l := range d.letters {
		if l.Parks && unitOf(&l.row, l.Destination) == u {
			first = min(first, l.position)
		}
	}
	return first
}

// waitsBefore reports whether a row at a position of a unit is behind something in it.
func (d *data) waitsBefore(u settleplan.Unit, position int64) bool {
	queue := d.queue(u)
	return len(queue) > 0 && queue[0].position < position || d.parkedFrom(u) < position
}

// blocked reports whether a row of the outbox must follow its key to the waiting rows,
// whatever its destinations will be.
func (d *data) blocked(r *row) bool {
	topic, key := r.message.Address(), r.message.Key
	for _, w := range d.waiting {
		if !w.alone && w.inUnit(topic, key) {
			return true
		}
	}
	for _, l := range d.letters {
		if l.Parks && l.row.inUnit(topic, key) {
			return true
		}
	}
	return false
}

// pendsBefore reports whether the outbox has a row before r in its unit: one that waits can't be put behind it.
func (d *data) pendsBefore(r *row) bool {
	topic, key := r.message.Address(), r.message.Key
	for _, o := range d.outbox {
		if key != "" && o.position < r.position && o.inUnit(topic, key) {
			return true
		}
	}
	return false
}

// promote lets the first waiting row of a unit go if it is behind nothing any more.
func (s *Store) promote(tx *Tx, u settleplan.Unit) {
	queue := s.data.queue(u)
	if len(queue) == 0 {
		return
	}
	first := queue[0]
	if first.due.IsZero() && s.data.parkedFrom(u) > first.position {
		first.due = s.now()
		put(tx, s.data.waiting, first.place(), first)
	}
}

// CountParked implements [contract.Source].
func (s *Store) CountParked(ctx context.Context, lanes []contract.Lane) (keys, messages int, err error) {
	err = s.inTx(ctx, func(*Tx) error {
		units := make(map[settleplan.Unit]bool)
		for _, l := range s.data.letters {
			if l.Parks && slices.ContainsFunc(lanes, func(own contract.Lane) bool { return own.Number == l.lane }) {
				units[unitOf(&l.row, l.Destination)] = true
			}
		}
		for u := range units {
			messages += s.data.behind(u, s.data.parkedFrom(u))
		}
		keys = len(units)
		return nil
	})
	return keys, messages, err
}

// behind returns how many rows of a unit wait after a position.
func (d *data) behind(u settleplan.Unit, position int64) int {
	n := 0
	for _, w := range d.queue(u) {
		if w.position > position {
			n++
		}
	}
	return n
}
