package sqlstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/internal/sqldb"
)

const (
	// AnyDueSQL is asked first: a poll that finds nothing needs no transaction, and so waits for
	// no lock.
	AnyDueSQL = `SELECT EXISTS (SELECT 1 FROM {scheduled} WHERE due_at <= {now})`

	// RefuseDueSQL makes a scheduled message whose id is on its way a dead letter: it must
	// neither clog nor vanish. It is for a store without lanes.
	RefuseDueSQL = `
INSERT INTO {dead_letters} (origin, position, {message}, reason, error, attempts, first_failed_at, last_failed_at)
SELECT 'relay', s.position, {s.message}, 'duplicate_id', 'a message with this id was on its way when this one was due', 0, {now}, {now}
  FROM {scheduled} s WHERE s.position = $1`

	RemoveScheduledSQL = `DELETE FROM {scheduled} WHERE position = $1`
)

// Due is how a store releases scheduled messages one by one. M is what it has to know of one.
type Due[M any] struct {
	Any  string // returns whether there are any
	List string // takes a limit; keeps other relays from what it returns, for Scan
	Scan func(r sqldb.Rows) (M, error)

	// Release takes a message from the scheduled ones. It reports whether the outbox has taken
	// it; else it is a dead letter.
	Release func(ctx context.Context, conn sqldb.Conn, m M) (taken bool, err error)
}

// ReleaseDue does what [relay.Source] says of ReleaseScheduled, in a transaction of c.
func ReleaseDue[Tx, M any](ctx context.Context, c *Core[Tx], due Due[M], limit int) (int, error) {
	rows, err := c.DB.Query(ctx, due.Any)
	if some, _, err := sqldb.One(rows, err, sqldb.Scan[bool]); err != nil || !some {
		return 0, c.Kind(err)
	}
	var list []M
	err = c.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		rows, err := conn.Query(ctx, due.List, limit)
		if list, err = sqldb.Collect(rows, err, due.Scan); err != nil {
			return err
		}
		refused := 0
		for _, m := range list {
			taken, err := due.Release(ctx, conn, m)
			if err != nil {
				return fmt.Errorf("release scheduled message: %w", err)
			}
			if !taken {
				refused++
			}
		}
		if refused > 0 {
			return c.NameLetters(ctx, conn)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(list), nil
}
