package waybilltest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/waybill-go/waybill"
)

// OpenDB opens a database as [sql.Open] does, with each BEGIN, statement and COMMIT of a delivery
// as a step, and one more between a COMMIT and its answer. A fault at a step makes the call fail;
// all later calls in the transaction fail too, and it rolls back. The database is
// closed after the trial.
//
// The driver must implement the interfaces with contexts, as those of SQLite, PostgreSQL and MySQL
// do. Each trial needs a separate database: with SQLite, each connection to ":memory:" opens a new
// one, so call SetMaxOpenConns(1).
func (f *Faults) OpenDB(driverName, dataSource string) (*sql.DB, error) {
	plain, err := sql.Open(driverName, dataSource)
	if err != nil {
		return nil, err
	}
	c, err := connectorOf(plain.Driver(), dataSource)
	if err := errors.Join(err, plain.Close()); err != nil {
		return nil, fmt.Errorf("waybilltest: open %s: %w", driverName, err)
	}
	db := sql.OpenDB(&connector{Connector: c, faults: f})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closers = append(f.closers, db.Close)
	return db, nil
}

func connectorOf(d driver.Driver, dataSource string) (driver.Connector, error) {
	if c, ok := d.(driver.DriverContext); ok {
		return c.OpenConnector(dataSource)
	}
	return opener{d, dataSource}, nil
}

// opener is the connector of a driver that has none.
type opener struct {
	driver     driver.Driver
	dataSource string
}

func (o opener) Connect(context.Context) (driver.Conn, error) { return o.driver.Open(o.dataSource) }
func (o opener) Driver() driver.Driver                        { return o.driver }

// connector makes connections whose statements are steps.
type connector struct {
	driver.Connector
	faults *Faults
}

// contextConn is what a driver's connection must implement.
type contextConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
}

// Connect implements [driver.Connector].
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	base, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	with, ok := base.(contextConn)
	if !ok {
		err := &waybill.InvalidError{Field: "driverName", Reason: fmt.Sprintf("has connections of type %T, which take no context", base)}
		return nil, errors.Join(err, base.Close())
	}
	return &conn{contextConn: with, faults: c.faults}, nil
}

// conn is a connection whose statements are steps. It is used by one goroutine at a time.
type conn struct {
	contextConn
	faults *Faults
	inTx   bool
	lost   error // the error of a failed step in the current transaction
}

var (
	_ driver.ExecerContext     = (*conn)(nil)
	_ driver.QueryerContext    = (*conn)(nil)
	_ driver.NamedValueChecker = (*conn)(nil)
	_ driver.SessionResetter   = (*conn)(nil)
	_ driver.Validator         = (*conn)(nil)
	_ driver.Pinger            = (*conn)(nil)
)

// step fails if a fault strikes, or has struck in this transaction.
func (c *conn) step(query string) error {
	if c.lost != nil {
		return c.lost
	}
	err := c.faults.Step(shortened(query))
	if c.inTx {
		c.lost = err
	}
	return err
}

// maxQuery is how much of a statement a report shows, in characters.
const maxQuery = 60

// shortened returns a statement on one line.
func shortened(query string) string {
	line := strings.Join(strings.Fields(query), " ")
	if r := []rune(line); len(r) > maxQuery {
		return string(r[:maxQuery]) + "…"
	}
	return line
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if err := c.step("BEGIN"); err != nil {
		return nil, err
	}
	base, err := c.contextConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	c.inTx = true
	return &transaction{base: base, conn: c}, nil
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	base, ok := c.contextConn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip // database/sql prepares it
	}
	if err := c.step(query); err != nil {
		return nil, err
	}
	return base.ExecContext(ctx, query, args)
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	base, ok := c.contextConn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	if err := c.step(query); err != nil {
		return nil, err
	}
	return base.QueryContext(ctx, query, args)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	base, err := c.contextConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	with, ok := base.(contextStmt)
	if !ok {
		err := fmt.Errorf("waybilltest: a prepared statement is a %T, which takes no context", base)
		return nil, errors.Join(err, base.Close())
	}
	return &statement{contextStmt: with, conn: c, query: query}, nil
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if base, ok := c.contextConn.(driver.NamedValueChecker); ok {
		return base.CheckNamedValue(v)
	}
	return driver.ErrSkip // the usual conversions
}

func (c *conn) ResetSession(ctx context.Context) error {
	if base, ok := c.contextConn.(driver.SessionResetter); ok {
		return base.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	base, ok := c.contextConn.(driver.Validator)
	return !ok || base.IsValid()
}

func (c *conn) Ping(ctx context.Context) error {
	if base, ok := c.contextConn.(driver.Pinger); ok {
		return base.Ping(ctx)
	}
	return nil
}

// contextStmt is what a driver's prepared statement must implement.
type contextStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// statement is a prepared statement, whose uses are steps.
type statement struct {
	contextStmt
	conn  *conn
	query string
}

func (s *statement) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.conn.step(s.query); err != nil {
		return nil, err
	}
	return s.contextStmt.ExecContext(ctx, args)
}

func (s *statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.conn.step(s.query); err != nil {
		return nil, err
	}
	return s.contextStmt.QueryContext(ctx, args)
}

func (s *statement) CheckNamedValue(v *driver.NamedValue) error {
	if base, ok := s.contextStmt.(driver.NamedValueChecker); ok {
		return base.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
}

// transaction commits unless a fault has struck in it.
type transaction struct {
	base driver.Tx
	conn *conn
}

func (t *transaction) Commit() error {
	if err := t.conn.step("COMMIT"); err != nil {
		return errors.Join(err, t.Rollback())
	}
	t.conn.inTx = false
	if err := t.base.Commit(); err != nil {
		return err
	}
	return t.conn.step("answer to COMMIT")
}

func (t *transaction) Rollback() error {
	t.conn.inTx, t.conn.lost = false, nil
	return t.base.Rollback()
}
