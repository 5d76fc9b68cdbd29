package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// RenewLanes implements [contract.Source]. Renewals run one after the other, so that none sees
// another's half-done work. Join and Renew take the node and the milliseconds of the lease,
// GiveLanes the node and the lanes, and the others the node, except LockLanes, FreeLanes and CutLeases,
// which take nothing.
//
// CutLeases shortens a lease that ends later than it could if it were renewed now: the clock has been
// set back. It then lasts as long as any other, so that its relay has the time to renew it.
func (c *Core[Tx]) RenewLanes(ctx context.Context, req contract.LeaseRequest) (lease contract.Lease, err error) {
	err = c.InTx(ctx, func(_ Tx, conn sqldb.Conn) (err error) {
		if lease, err = c.renew(ctx, conn, req); err != nil {
			return fmt.Errorf("renew lanes: %w", err)
		}
		return nil
	})
	if err != nil {
		return contract.Lease{}, err
	}
	return lease, nil
}

func (c *Core[Tx]) renew(ctx context.Context, conn sqldb.Conn, req contract.LeaseRequest) (contract.Lease, error) {
	if c.SQL.LockLanes != "" {
		if _, err := conn.Exec(ctx, c.SQL.LockLanes); err != nil {
			return contract.Lease{}, err
		}
	}
	if req.Join {
		if _, err := conn.Exec(ctx, c.SQL.Join, req.Node, Millis(req.TTL)); err != nil {
			return contract.Lease{}, err
		}
	}
	n, err := conn.Exec(ctx, c.SQL.Renew, req.Node, Millis(req.TTL))
	if err != nil {
		return contract.Lease{}, err
	}
	if n == 0 { // others have seen the lease expire
		return contract.Lease{}, waybill.ErrLeaseLost
	}
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{c.SQL.CutLeases, nil},
		{c.SQL.Reap, []any{req.Node}},
		{c.SQL.FreeLanes, nil},
		{c.SQL.GiveLanes, []any{req.Node, append([]int{}, req.Give...)}},
		{c.SQL.TakeLanes, []any{req.Node}},
	} {
		if _, err := conn.Exec(ctx, step.sql, step.args...); err != nil {
			return contract.Lease{}, err
		}
	}
	return c.readLease(ctx, conn, req.Node)
}

// readLease runs OwnLanes, which returns the share and the number of all lanes with each lane, and once
// with NULL for a node without lanes.
func (c *Core[Tx]) readLease(ctx context.Context, conn sqldb.Conn, node string) (contract.Lease, error) {
	rows, err := conn.Query(ctx, c.SQL.OwnLanes, node)
	return ScanLease(rows, err)
}

// ScanLease reads a lease as OwnLanes returns it. Further columns are scanned into more.
func ScanLease(rows sqldb.Rows, err error, more ...any) (contract.Lease, error) {
	lease := contract.Lease{Lanes: []contract.Lane{}}
	var number, epoch sql.NullInt64
	dest := append([]any{&number, &epoch, &lease.Share, &lease.Total}, more...)
	_, err = sqldb.Collect(rows, err, func(r sqldb.Rows) (struct{}, error) {
		err := r.Scan(dest...)
		if number.Valid {
			lease.Lanes = append(lease.Lanes, contract.Lane{Number: int(number.Int64), Epoch: epoch.Int64})
		}
		return struct{}{}, err
	})
	return lease, err
}

// LeaveLanes implements [contract.Source].
func (c *Core[Tx]) LeaveLanes(ctx context.Context, node string) error {
	c.Signals.Leave(node)
	return c.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		if c.SQL.LockLanes != "" {
			if _, err := conn.Exec(ctx, c.SQL.LockLanes); err != nil {
				return err
			}
		}
		if _, err := conn.Exec(ctx, c.SQL.LeaveLanes, node); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, c.SQL.Leave, node)
		return err
	})
}
