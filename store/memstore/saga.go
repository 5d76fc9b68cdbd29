package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
)

var (
	_ saga.Store[*Tx]    = (*Store)(nil)
	_ saga.OperatorStore = (*Store)(nil)
)

// cloneSaga returns a copy of an instance that shares nothing with it.
func cloneSaga(in saga.Instance) saga.Instance {
	in.Data = slices.Clone(in.Data)
	in.Progress.Timeouts = maps.Clone(in.Progress.Timeouts)
	in.Progress.Scheduled = maps.Clone(in.Progress.Scheduled)
	return in
}

// ReadSaga implements [saga.Store]. Transactions run one after the other, so each has the lock.
func (s *Store) ReadSaga(_ context.Context, tx *Tx, id saga.ID, _ bool) (saga.Instance, error) {
	if err := tx.given(); err != nil {
		return saga.Instance{}, err
	}
	in, found := s.data.sagas[id]
	if !found {
		return saga.Instance{}, waybill.ErrNotFound
	}
	return cloneSaga(in), nil
}

// WriteSaga implements [saga.Store].
func (s *Store) WriteSaga(_ context.Context, tx *Tx, in *saga.Instance, e saga.Entry) (bool, error) {
	if err := tx.step("write the saga's instance"); err != nil {
		return false, err
	}
	return s.writeSaga(tx, in, e), nil
}

// writeSaga returns false if the stored version is not that of in.
func (s *Store) writeSaga(tx *Tx, in *saga.Instance, e saga.Entry) bool {
	old := s.data.sagas[in.ID]
	if old.Version != in.Version {
		return false
	}
	now := s.now().UTC()
	in.Number, in.StartedAt = old.Number, old.StartedAt
	if old.Version == 0 {
		s.data.instances++ // never taken back
		in.Number, in.StartedAt = s.data.instances, now
	}
	in.Version, in.ChangedAt, in.EndedAt = in.Version+1, now, time.Time{}
	if in.Status.Ended() {
		in.EndedAt = now
	}
	e.Version, e.At = in.Version, now
	put(tx, s.data.sagas, in.ID, cloneSaga(*in))
	put(tx, s.data.sagaLog, in.ID, append(slices.Clip(s.data.sagaLog[in.ID]), e))
	return true
}

// ChangeSaga implements [saga.OperatorStore].
func (s *Store) ChangeSaga(ctx context.Context, in saga.Instance, e saga.Entry, m *waybill.Message, a deadletter.Entry) (bool, error) {
	return s.audited(ctx, a, func(tx *Tx) (bool, error) {
		if !s.writeSaga(tx, &in, e) {
			return false, nil
		}
		due := m.Clone()
		due.DeliverAt = s.now().UTC()
		added, err := s.AddScheduled(ctx, tx, &due)
		if err == nil && !added {
			err = waybill.ConflictError(schedule.ErrExists)
		}
		return added, err
	})
}

// Sagas implements [saga.Inspector].
func (s *Store) Sagas(ctx context.Context, f saga.Filter) ([]saga.Instance, error) {
	list := []saga.Instance{}
	err := s.inTx(ctx, func(*Tx) error {
		list = append(list, sorted(s.data.sagas, func(in saga.Instance) bool {
			return (f.Tenant == "" || in.Tenant == f.Tenant) && (f.Saga == "" || in.Saga == f.Saga) && (f.Key == "" || in.Key == f.Key) &&
				(f.Status == "" || in.Status == f.Status) && (f.Before == 0 || in.Number < f.Before)
		}, func(in saga.Instance) int64 { return -in.Number })...)
		return nil
	})
	list = list[:min(cmp.Or(f.Limit, 100), len(list))]
	for i := range list {
		list[i].Data, list[i].Progress = nil, saga.Progress{}
	}
	return list, err
}

// Saga implements [saga.Inspector].
func (s *Store) Saga(ctx context.Context, id saga.ID) (in saga.Instance, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		in, err = s.ReadSaga(ctx, tx, id, false)
		return err
	})
	return in, err
}

// SagaLog implements [saga.Inspector].
func (s *Store) SagaLog(ctx context.Context, id saga.ID, after int64, limit int) ([]saga.Entry, error) {
	list := []saga.Entry{}
	err := s.inTx(ctx, func(*Tx) error {
		for _, e := range s.data.sagaLog[id] {
			if e.Version > after && len(list) < limit {
				list = append(list, e)
			}
		}
		return nil
	})
	return list, err
}

// SagaCounts implements [saga.Inspector].
func (s *Store) SagaCounts(ctx context.Context) ([]saga.Count, error) {
	type group struct {
		saga   string
		status saga.Status
	}
	counts := make(map[group]saga.Count)
	err := s.inTx(ctx, func(*Tx) error {
		for _, in := range s.data.sagas {
			g := group{in.Saga, in.Status}
			c := counts[g]
			c.Saga, c.Status, c.Count = in.Saga, in.Status, c.Count+1
			if !in.Status.Ended() {
				c.Idle = max(c.Idle, s.now().Sub(in.ChangedAt))
			}
			counts[g] = c
		}
		return nil
	})
	list := slices.AppendSeq([]saga.Count{}, maps.Values(counts))
	slices.SortFunc(list, func(a, b saga.Count) int {
		return cmp.Or(cmp.Compare(a.Saga, b.Saga), cmp.Compare(a.Status, b.Status))
	})
	return list, err
}

// expiredSagas removes instances that have ended, with their log.
func (s *Store) expiredSagas(limit time.Time, mine func(tenant string) bool) []func(tx *Tx) {
	var list []func(tx *Tx)
	for id, in := range s.data.sagas {
		if in.Status.Ended() && !in.EndedAt.After(limit) && mine(id.Tenant) {
			list = append(list, func(tx *Tx) {
				drop(tx, s.data.sagas, id)
				drop(tx, s.data.sagaLog, id)
			})
		}
	}
	return list
}
