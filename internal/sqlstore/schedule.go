package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/observe"
)

// Due is how a store releases scheduled messages one by one. M is what it needs of each.
type Due[M any] struct {
	Any  string // returns whether there are any
	List string // takes a limit; locks what it returns, for Scan
	Scan func(r sqldb.Rows) (M, error)

	Position       func(m M) int64
	Refuse, Remove string // take a position; Refuse a reason and an error, too

	// Release inserts a message into the outbox, and reports whether the outbox has taken it: another
	// message may have its id.
	Release func(ctx context.Context, conn sqldb.Conn, m M) (taken bool, err error)
}

// maxHeld is how many messages one call of [ReleaseAround] postpones: each costs a wait.
const maxHeld = 3

// ReleaseAround does what [contract.Source] says of ReleaseScheduled, around messages whose id an open
// transaction is just enqueuing, which may take indefinitely. release moves up to limit of those that
// are due first and waits for no lock for long; postpone defers the first one for a while, so that it
// neither holds up those behind it nor costs each call a wait.
func ReleaseAround(limit int, release func(limit int) (int, error), postpone func() error) (released int, err error) {
	size, held := limit, 0
	for released < limit {
		most := min(size, limit-released)
		n, err := release(most)
		switch {
		case err == nil && n < most:
			return released + n, nil
		case err == nil:
			released, size = released+n, 2*size
		case !waybill.IsConflict(err):
			return released, err
		case most > 1:
			size = 1 // to see which one it is
		case held == maxHeld:
			return released, nil
		default:
			held++
			if err := postpone(); err != nil {
				return released, err
			}
		}
	}
	return released, nil
}

// ReleaseDue does what [contract.Source] says of ReleaseScheduled, in a transaction of c, and in one
// more for each message that the outbox refuses.
func ReleaseDue[Tx, M any](ctx context.Context, c *Core[Tx], due Due[M], limit int) (n int, err error) {
	rows, err := c.DB.Query(ctx, due.Any)
	if some, _, err := sqldb.One(rows, err, sqldb.Scan[bool]); err != nil || !some {
		return 0, c.Kind(err)
	}
	for n < limit {
		released, err := releaseDue(ctx, c, due, limit-n)
		var refused *refusedRow
		if !errors.As(err, &refused) || !RefusesRow(err) {
			return n + released, err
		}
		if err := refuseDue(ctx, c, due, refused); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// refusedRow is the error of a scheduled message that could not be released.
type refusedRow struct {
	position int64
	error
}

func (e *refusedRow) Unwrap() error { return e.error }

// RefusesRow reports whether a statement has failed because of the content of a row, and not because
// the database was unavailable or because of a conflict.
func RefusesRow(err error) bool {
	kind := waybill.KindOf(err)
	return err != nil && kind != waybill.Unavailable && kind != waybill.Conflict && !errors.Is(err, context.DeadlineExceeded)
}

func releaseDue[Tx, M any](ctx context.Context, c *Core[Tx], due Due[M], limit int) (int, error) {
	var list []M
	err := c.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		found, err := conn.Query(ctx, due.List, limit)
		if list, err = sqldb.Collect(found, err, due.Scan); err != nil {
			return err
		}
		refused := 0
		for _, m := range list {
			taken, err := due.Release(ctx, conn, m)
			if err == nil && !taken {
				refused++
				_, err = conn.Exec(ctx, due.Refuse, due.Position(m), string(waybill.ReasonDuplicateID), rows.DuplicateError)
			}
			if err == nil {
				_, err = conn.Exec(ctx, due.Remove, due.Position(m))
			}
			if err != nil {
				return &refusedRow{due.Position(m), fmt.Errorf("release scheduled message: %w", err)}
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

// refuseDue makes a message that cannot be released a dead letter, unless another relay has.
func refuseDue[Tx, M any](ctx context.Context, c *Core[Tx], due Due[M], row *refusedRow) error {
	return c.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		_, err := conn.Exec(ctx, due.Refuse, row.position, string(waybill.ReasonMalformed), observe.ErrorText(row.error))
		if err != nil {
			return err
		}
		n, err := conn.Exec(ctx, due.Remove, row.position)
		if err == nil && n == 0 {
			return waybill.ConflictError(errors.New("another relay has released the message"))
		}
		if err == nil {
			err = c.NameLetters(ctx, conn)
		}
		return err
	})
}
