package memstore

import (
	"cmp"
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
)

// DeadLetters implements [deadletter.Store].
func (s *Store) DeadLetters(ctx context.Context, f deadletter.Filter) ([]deadletter.Letter, error) {
	limit := f.Limit
	if limit == 0 {
		limit = deadletter.DefaultLimit
	}
	list := []deadletter.Letter{}
	err := s.inTx(ctx, func(*Tx) error {
		for _, l := range sorted(s.data.letters, func(l letter) bool { return l.matches(f) }, func(l letter) int64 { return l.Number }) {
			if len(list) < limit {
				l.Letter.Message = l.row.message.Clone()
				if l.Parks {
					l.Behind = s.data.behind(unitOf(&l.row, l.Destination), l.position)
				}
				list = append(list, l.Letter)
			}
		}
		return nil
	})
	return list, err
}

func (l *letter) matches(f deadletter.Filter) bool {
	m := &l.row.message
	equal := func(want, got string) bool { return want == "" || want == got }
	return l.Number > f.After && equal(string(f.Origin), string(l.Origin)) && equal(f.Consumer, l.Consumer) &&
		equal(f.Topic, m.Address()) && equal(f.Type, m.Type) && equal(f.Tenant, m.Tenant) && f.Resolved == (l.ResolvedAt != nil)
}

// RequeueDeadLetter implements [deadletter.Store].
func (s *Store) RequeueDeadLetter(ctx context.Context, number int64) (requeued bool, err error) {
	err = s.inTx(ctx, func(tx *Tx) (err error) {
		l, ok := s.data.letters[number]
		if !ok {
			return s.whereIs(number)
		}
		if l.ResolvedAt != nil {
			return fmt.Errorf("dead letter %d: %w", number, deadletter.ErrResolved)
		}
		if l.Origin == deadletter.FromRelay {
			requeued = s.requeueToRelay(tx, l)
		} else {
			requeued, err = s.requeueToConsumer(tx, l)
		}
		return err
	})
	if requeued {
		s.WakeRelay()
	}
	return requeued, err
}

// ResolveDeadLetter implements [deadletter.Store].
func (s *Store) ResolveDeadLetter(ctx context.Context, number int64, resolution string) (resolved bool, err error) {
	if err := deadletter.CheckResolution(resolution); err != nil {
		return false, err
	}
	err = s.inTx(ctx, func(tx *Tx) error {
		l, ok := s.data.letters[number]
		switch {
		case ok && l.ResolvedAt != nil:
			return nil
		case ok && l.Requeued:
			return fmt.Errorf("dead letter %d: %w", number, deadletter.ErrRequeued)
		case !ok:
			return cmp.Or(s.whereIs(number), fmt.Errorf("dead letter %d: %w", number, deadletter.ErrRequeued))
		}
		now := s.now()
		l.ResolvedAt, l.Resolution, l.Parks = &now, resolution, false
		put(tx, s.data.letters, number, l)
		if l.Origin == deadletter.FromRelay {
			s.promote(tx, unitOf(&l.row, l.Destination))
		}
		resolved = true
		return nil
	})
	if resolved {
		s.WakeRelay()
	}
	return resolved, err
}

// whereIs tells a letter that is on its way already from one that never was.
func (s *Store) whereIs(number int64) error {
	for _, w := range s.data.waiting {
		if w.letter == number {
			return nil
		}
	}
	return fmt.Errorf("dead letter %d: %w", number, waybill.ErrNotFound)
}

func (s *Store) requeueToRelay(tx *Tx, l letter) bool {
	m := &l.row.message
	if s.data.idPending(m.ID) || s.idWaitsFor(m.ID, l.Destination) {
		return false
	}
	w := waitingRow{row: l.row, destination: l.Destination, life: l.Requeues + 1, letter: l.Number}
	drop(tx, s.data.letters, l.Number)
	if !s.data.waitsBefore(unitOf(&l.row, l.Destination), w.position) {
		w.due = s.now()
	}
	put(tx, s.data.waiting, w.place(), w)
	return true
}

func (s *Store) requeueToConsumer(tx *Tx, l letter) (bool, error) {
	if l.key.Message == "" {
		return false, waybill.PermanentError(waybill.ReasonNoID,
			fmt.Errorf("dead letter %d has no inbox key: its message has no id, or another one was processed under it; it cannot be run again safely", l.Number))
	}
	if !l.requeuedAt.IsZero() {
		return false, nil
	}
	l.requeuedAt, l.Requeued = s.now(), true
	l.Requeues++
	put(tx, s.data.letters, l.Number, l)
	return true, nil
}
