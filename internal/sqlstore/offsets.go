package sqlstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// OffsetStatements are the SQL texts about the progress of partitions, of which each has one row.
type OffsetStatements struct {
	// Add inserts a row, unless there is one. After the partition it takes the progress.
	Add string

	Read, Take, Advance string
}

// partitionArgs are $1 to $3 of every statement about a partition.
func partitionArgs(p inbox.Partition, more ...any) []any {
	return append([]any{p.Group, p.Topic, int64(p.Number)}, more...)
}

func holderArgs(h inbox.Holder) []any { return []any{int64(h.Generation), h.Member} }

// ReadProgress implements [contract.OffsetStore].
func (c *Core[Tx]) ReadProgress(ctx context.Context, p inbox.Partition) (contract.Progress, bool, error) {
	v, found, err := c.readProgress(ctx, c.DB, p)
	return v, found, c.Kind(err)
}

func (c *Core[Tx]) readProgress(ctx context.Context, conn sqldb.Conn, p inbox.Partition) (contract.Progress, bool, error) {
	rows, err := conn.Query(ctx, c.SQL.Offsets.Read, partitionArgs(p)...)
	v, found, err := sqldb.One(rows, err, func(r sqldb.Rows) (v contract.Progress, err error) {
		err = r.Scan(&v.Next, &v.RecordedBelow, &v.Generation, &v.Member)
		return v, err
	})
	if err != nil {
		return v, false, fmt.Errorf("read progress: %w", err)
	}
	return v, found, nil
}

// TakePartition implements [contract.OffsetStore].
func (c *Core[Tx]) TakePartition(ctx context.Context, p inbox.Partition, was *contract.Progress, now contract.Progress) (bool, error) {
	args := append(partitionArgs(p, now.Next, now.RecordedBelow), holderArgs(now.Holder)...)
	text := c.SQL.Offsets.Add
	if was != nil {
		text = c.SQL.Offsets.Take
		args = append(append(args, was.Next), holderArgs(was.Holder)...)
	}
	n, err := c.DB.Exec(ctx, text, args...)
	if err != nil {
		return false, c.Kind(fmt.Errorf("take partition: %w", err))
	}
	return n > 0, nil
}

// moveBehind sets the progress of a partition past a message. It returns false if it is there
// already.
func (c *Core[Tx]) moveBehind(ctx context.Context, conn sqldb.Conn, at *inbox.Position) (bool, error) {
	n, err := conn.Exec(ctx, c.SQL.Offsets.Advance, append(partitionArgs(at.Partition, at.Offset+1), holderArgs(at.Holder)...)...)
	if err != nil {
		return false, fmt.Errorf("advance partition: %w", err)
	}
	return n > 0, nil
}

// passed returns nil if a message for which moveBehind changed nothing is settled.
func (c *Core[Tx]) passed(ctx context.Context, conn sqldb.Conn, at *inbox.Position) error {
	stored, found, err := c.readProgress(ctx, conn, at.Partition)
	switch {
	case err != nil:
		return err
	case !found || stored.Next <= at.Offset:
		return waybill.ConflictError(contract.ErrFenced)
	}
	return nil
}

// doneWith advances the partition past a message that has a position, and reports whether it was
// past it already.
func (c *Core[Tx]) doneWith(ctx context.Context, conn sqldb.Conn, at *inbox.Position) (bool, error) {
	if at == nil {
		return false, nil
	}
	moved, err := c.moveBehind(ctx, conn, at)
	if err != nil || moved {
		return false, err
	}
	return true, c.passed(ctx, conn, at)
}
