package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/traffic"
)

// TrafficStatements are the SQL texts about rows of traffic. Steps are in seconds, times in seconds since 1970.
type TrafficStatements struct{ Add, List, Remove string }

// trafficKey are $1 to $3 of the statements about one row.
func trafficKey(r traffic.Row) []any {
	return []any{int64(r.Step / time.Second), r.At.Unix(), r.Writer}
}

// AddTraffic implements [traffic.Store].
func (c *Core[Tx]) AddTraffic(ctx context.Context, row traffic.Row) error {
	err := c.alone(ctx, func(conn sqldb.Conn) error { return c.addTraffic(ctx, conn, row) })
	if err != nil {
		return fmt.Errorf("add traffic: %w", err)
	}
	return nil
}

func (c *Core[Tx]) addTraffic(ctx context.Context, conn sqldb.Conn, row traffic.Row) error {
	_, err := conn.Exec(ctx, c.SQL.Traffic.Add, append(trafficKey(row), row.Data)...)
	return err
}

// Traffic implements [traffic.Store].
func (c *Core[Tx]) Traffic(ctx context.Context, step time.Duration, from, to time.Time) ([]traffic.Row, error) {
	rows, err := c.DB.Query(ctx, c.SQL.Traffic.List, int64(step/time.Second), from.Unix(), to.Unix())
	list, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (row traffic.Row, err error) {
		var step, at int64
		err = r.Scan(&step, &at, &row.Writer, &row.Data)
		row.Step, row.At = time.Duration(step)*time.Second, time.Unix(at, 0).UTC()
		return row, err
	})
	if err != nil {
		return nil, c.Kind(fmt.Errorf("read traffic: %w", err))
	}
	return list, nil
}

var errTrafficReplaced = waybill.ConflictError(errors.New("a row of traffic was replaced by another process"))

// ReplaceTraffic implements [traffic.Store].
func (c *Core[Tx]) ReplaceTraffic(ctx context.Context, old []traffic.Row, sum *traffic.Row) error {
	err := c.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		for _, r := range old {
			n, err := conn.Exec(ctx, c.SQL.Traffic.Remove, trafficKey(r)...)
			if err != nil {
				return err
			}
			if n == 0 {
				return errTrafficReplaced
			}
		}
		if sum == nil {
			return nil
		}
		return c.addTraffic(ctx, conn, *sum)
	})
	if err != nil {
		return fmt.Errorf("replace traffic: %w", err)
	}
	return nil
}
