package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// guarded is the database for transactions that run the caller's code. Some errors, such as a
// deadlock, end the whole transaction on the server. If the caller ignores one, the session would
// commit each later statement by itself, and COMMIT would succeed. So autocommit is off while the
// transaction lasts, and a savepoint that is gone before COMMIT shows that the transaction is
// another one, which is rolled back.
//
// A transaction takes six round trips next to its own statements: SET, START TRANSACTION and
// SAVEPOINT, then RELEASE SAVEPOINT, COMMIT and SET. Without the guard there would be three.
type guarded struct {
	*database
	sessions sync.Map    // *sql.Tx to its *sql.Conn
	older    atomic.Bool // the server knows the older name of the isolation level
}

const (
	// The first statement also sets the isolation level of the next transaction. MySQL has one name
	// for the variable, MariaDB before 11.1 the other.
	guardSQL      = "SET autocommit = 0, @@transaction_isolation = 'READ-COMMITTED'"
	olderGuardSQL = "SET autocommit = 0, @@tx_isolation = 'READ-COMMITTED'"
	restoreSQL    = "SET autocommit = 1"
	markSQL       = "SAVEPOINT waybill"
	checkSQL      = "RELEASE SAVEPOINT waybill"

	leaveTimeout = 10 * time.Second
)

var errEnded = errors.New("the server has rolled the transaction back on an error that was not returned, such as a deadlock")

func (d *guarded) Begin(ctx context.Context) (*sql.Tx, error) {
	session, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := session.BeginTx(ctx, nil)
	if err != nil {
		leave(session, false)
		return nil, err
	}
	d.sessions.Store(tx, session)
	if _, err := tx.ExecContext(ctx, markSQL); err != nil {
		_ = d.Rollback(tx) // it holds nothing
		return nil, err
	}
	return tx, nil
}

// enter takes a session and turns autocommit off. The pool may hold sessions that the server has
// ended meanwhile; each is tried once.
func (d *guarded) enter(ctx context.Context) (*sql.Conn, error) {
	for left := d.DB.DB.Stats().OpenConnections; ; left-- {
		session, err := d.DB.DB.Conn(ctx)
		if err != nil {
			return nil, err
		}
		if err = d.setUp(ctx, session); err == nil {
			return session, nil
		}
		leave(session, false)
		if left <= 0 || !errors.Is(err, driver.ErrBadConn) {
			return nil, err
		}
	}
}

func (d *guarded) setUp(ctx context.Context, session *sql.Conn) error {
	if !d.older.Load() {
		_, err := session.ExecContext(ctx, guardSQL)
		if err == nil || numberOf(err) != unknownVariable {
			return err
		}
		d.older.Store(true)
	}
	_, err := session.ExecContext(ctx, olderGuardSQL)
	return err
}

// leave returns a session to the pool. One whose transaction may not have ended is closed, because
// the change of the setting would commit it.
func leave(session *sql.Conn, ended bool) {
	if ended {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		_, err := session.ExecContext(ctx, restoreSQL)
		ended = err == nil
	}
	if !ended {
		_ = session.Raw(func(any) error { return driver.ErrBadConn }) // closes it
	}
	_ = session.Close() // it is closed, or back in the pool
}

func (d *guarded) Commit(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, checkSQL); err != nil {
		if numberOf(err) == noSavepoint {
			return waybill.ConflictError(errEnded)
		}
		return err
	}
	session, _ := d.sessions.LoadAndDelete(tx) // whatever COMMIT comes to
	return answered(ctx, func() error {
		err := tx.Commit()
		leave(session.(*sql.Conn), err == nil)
		return err
	})
}

func (d *guarded) CommitAfter(ctx context.Context, tx *sql.Tx, last func(conn sqldb.Conn) error) error {
	if err := last(d.On(tx)); err != nil {
		return err
	}
	if err := d.Commit(ctx, tx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (d *guarded) Rollback(tx *sql.Tx) error {
	session, ok := d.sessions.LoadAndDelete(tx)
	if !ok {
		return nil // it is committed, or the outcome is unknown
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	return answered(ctx, func() error {
		err := tx.Rollback()
		leave(session.(*sql.Conn), err == nil)
		if errors.Is(err, sql.ErrTxDone) {
			return nil
		}
		return err
	})
}
