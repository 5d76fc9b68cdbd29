package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
)

const (
	defaultGateTimeout = time.Second
	maxGateTimeout     = time.Hour
)

// patience is how long the first statement of a handler's transaction, the inbox insert, waits for
// another transaction that holds the record.
type patience time.Duration

func newPatience(d time.Duration) (patience, error) {
	if d == 0 {
		d = defaultGateTimeout
	}
	if d < time.Millisecond || d > maxGateTimeout {
		return 0, &waybill.InvalidError{Field: "GateTimeout", Reason: fmt.Sprintf("is %v, the range is 1ms to %v", d, maxGateTimeout)}
	}
	return patience(d), nil
}

// The session's own limit is saved while the inbox insert waits, so that it applies to the
// handler's statements as before.
const (
	shortenWaitSQL = `SELECT set_config('waybill.lock_timeout', current_setting('lock_timeout'), true), set_config('lock_timeout', $1, true)`
	restoreWaitSQL = `SELECT set_config('lock_timeout', current_setting('waybill.lock_timeout'), true)`
)

type statement struct {
	sql  string
	args []any
}

// statements are those to run before and after the inbox insert.
func (p patience) statements() (before, after []statement) {
	millis := strconv.FormatInt(time.Duration(p).Milliseconds(), 10)
	return []statement{{shortenWaitSQL, []any{millis}}}, []statement{{restoreWaitSQL, nil}}
}

// lockTimedOut reports whether err is that of a statement that has waited for lock_timeout.
func lockTimedOut(err error) bool {
	var s sqlStater
	return errors.As(err, &s) && s.SQLState() == "55P03"
}

// sqlDriver is the driver for database/sql, with an inbox insert that may have a timeout.
type sqlDriver struct {
	sqldb.DB
	gate patience
}

var (
	_ sqldb.Driver[*sql.Tx] = (*sqlDriver)(nil)
	_ sqldb.Opener[*sql.Tx] = (*sqlDriver)(nil)
)

// BeginWith takes a round trip for each statement.
func (d *sqlDriver) BeginWith(ctx context.Context, first func(conn sqldb.Conn) error) (*sql.Tx, error) {
	tx, err := d.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	if err = d.open(ctx, d.On(tx), first); err == nil {
		return tx, nil
	}
	if d.Rollback(tx) != nil {
		err = sqldb.Lost(err)
	}
	return nil, err
}

func (d *sqlDriver) open(ctx context.Context, conn sqldb.Conn, first func(conn sqldb.Conn) error) error {
	before, after := d.gate.statements()
	if err := execAll(ctx, conn, before); err != nil {
		return err
	}
	if err := first(conn); err != nil {
		return err
	}
	return execAll(ctx, conn, after)
}

func execAll(ctx context.Context, conn sqldb.Conn, list []statement) error {
	for _, s := range list {
		if _, err := conn.Exec(ctx, s.sql, s.args...); err != nil {
			return err
		}
	}
	return nil
}
