package memstore

import (
	"context"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

// ReadProgress implements [contract.OffsetStore].
func (s *Store) ReadProgress(ctx context.Context, p inbox.Partition) (v contract.Progress, found bool, err error) {
	err = s.inTx(ctx, func(*Tx) error {
		v, found = s.data.offsets[p]
		return nil
	})
	return v, found, err
}

// TakePartition implements [contract.OffsetStore].
func (s *Store) TakePartition(ctx context.Context, p inbox.Partition, was *contract.Progress, now contract.Progress) (taken bool, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		stored, found := s.data.offsets[p]
		if was == nil {
			taken = !found
		} else {
			taken = found && stored.Next == was.Next && stored.Holder == was.Holder
		}
		if taken {
			put(tx, s.data.offsets, p, now)
		}
		return nil
	})
	return taken, err
}

// passed reports whether a message with a position is settled. The error says that another consumer
// has taken over its partition.
func (s *Store) passed(at *inbox.Position) (bool, error) {
	if at == nil {
		return false, nil
	}
	stored, found := s.data.offsets[at.Partition]
	switch {
	case found && stored.Next > at.Offset:
		return true, nil
	case !found || stored.Holder != at.Holder:
		return false, waybill.ConflictError(contract.ErrFenced)
	}
	return false, nil
}

// moveBehind sets the progress of a partition past a message, if it has a position.
func (s *Store) moveBehind(tx *Tx, at *inbox.Position) {
	if at == nil {
		return
	}
	next := s.data.offsets[at.Partition]
	next.Next = at.Offset + 1
	put(tx, s.data.offsets, at.Partition, next)
}
