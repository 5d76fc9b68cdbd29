package pgstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// RenewLanes implements [contract.Source]: with one statement if no lane changes hands.
func (s *engine[Tx]) RenewLanes(ctx context.Context, req contract.LeaseRequest) (contract.Lease, error) {
	if !req.Join && len(req.Give) == 0 {
		lease, changes, err := s.extendLease(ctx, req)
		if err != nil || !changes {
			return lease, s.core.Kind(err)
		}
	}
	return s.core.RenewLanes(ctx, req)
}

// extendLease also reports whether there is more to do: a relay to reap, or lanes to take.
func (s *engine[Tx]) extendLease(ctx context.Context, req contract.LeaseRequest) (lease contract.Lease, changes bool, err error) {
	err = s.db.run(ctx, func(conn sqldb.Conn) (err error) {
		rows, err := conn.Query(ctx, s.sql.ExtendLease, req.Node, sqlstore.Millis(req.TTL))
		lease, err = sqlstore.ScanLease(rows, err, &changes)
		return err
	})
	if err == nil && lease.Total == 0 {
		err = waybill.ErrLeaseLost
	}
	if err != nil {
		return contract.Lease{}, false, fmt.Errorf("extend lease: %w", err)
	}
	return lease, changes, nil
}
