package memstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/traffic"
)

// trafficKey identifies a row of traffic.
type trafficKey struct {
	step   time.Duration
	at     int64 // in seconds since 1970
	writer string
}

func keyOfTraffic(r traffic.Row) trafficKey { return trafficKey{r.Step, r.At.Unix(), r.Writer} }

// AddTraffic implements [traffic.Store].
func (s *Store) AddTraffic(ctx context.Context, row traffic.Row) error {
	return s.inTx(ctx, func(tx *Tx) error {
		if _, there := s.data.traffic[keyOfTraffic(row)]; !there {
			tx.putTraffic(row)
		}
		return nil
	})
}

func (tx *Tx) putTraffic(row traffic.Row) {
	row.Data = slices.Clone(row.Data)
	put(tx, tx.store.data.traffic, keyOfTraffic(row), row)
}

// Traffic implements [traffic.Store].
func (s *Store) Traffic(ctx context.Context, step time.Duration, from, to time.Time) (list []traffic.Row, err error) {
	err = s.inTx(ctx, func(*Tx) error {
		list = []traffic.Row{}
		for _, r := range s.data.traffic {
			if r.Step == step && !r.At.Before(from) && r.At.Before(to) {
				r.Data = slices.Clone(r.Data)
				list = append(list, r)
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b traffic.Row) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Writer, b.Writer)) })
	return list, err
}

// ReplaceTraffic implements [traffic.Store].
func (s *Store) ReplaceTraffic(ctx context.Context, old []traffic.Row, sum *traffic.Row) error {
	return s.inTx(ctx, func(tx *Tx) error {
		for _, r := range old {
			if _, there := s.data.traffic[keyOfTraffic(r)]; !there {
				return waybill.ConflictError(errors.New("a row of traffic was replaced by another process"))
			}
			drop(tx, s.data.traffic, keyOfTraffic(r))
		}
		if sum != nil {
			tx.putTraffic(*sum)
		}
		return nil
	})
}
