package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-go/waybill/internal/sqldb"
)

// mark stands around the number of a parameter in rendered texts.
const mark = "\x00"

// numbered is a parameter of a rendered text.
func numbered(number int) string { return mark + strconv.Itoa(number) + mark }

// database runs rendered statements, in transactions at READ COMMITTED: at the default level
// they would lock the gaps between rows, and block those who enqueue.
//
// Arguments are sent as integers, floats, texts and bytes only, so that no setting of the
// driver or the session, such as a time zone, changes them.
type database struct{ sqldb.DB }

var _ sqldb.Driver[*sql.Tx] = (*database)(nil)

func newDatabase(db *sql.DB) *database {
	return &database{sqldb.DB{DB: db, Isolation: sql.LevelReadCommitted, Encode: encode}}
}

func (d *database) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return binding{&d.DB}.Exec(ctx, query, args...)
}

func (d *database) Query(ctx context.Context, query string, args ...any) (sqldb.Rows, error) {
	return binding{&d.DB}.Query(ctx, query, args...)
}

func (d *database) On(tx *sql.Tx) sqldb.Conn { return binding{d.DB.On(tx)} }

func (d *database) Commit(ctx context.Context, tx *sql.Tx) error {
	return answered(ctx, tx.Commit)
}

func (d *database) CommitAfter(ctx context.Context, tx *sql.Tx, last func(conn sqldb.Conn) error) error {
	if err := last(d.On(tx)); err != nil {
		return err
	}
	if err := d.Commit(ctx, tx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (d *database) Rollback(tx *sql.Tx) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	return answered(ctx, func() error { return d.DB.Rollback(tx) })
}

// binding puts the arguments of rendered statements where their parameters are.
type binding struct{ sqldb.Conn }

// unlessThere ends an INSERT of a row that is not to be stored if there is one with its key.
// That one is changed, so that the statement counts two, whether or not the driver is configured to
// count unchanged rows; [binding] turns two into none.
const unlessThere = `ON DUPLICATE KEY UPDATE repeats = repeats + 1`

// orNone ends an INSERT with the same effect that needs no right to change rows: it fails if there
// is one, and [binding] turns that failure into no row. That row stays locked for others to read.
const orNone = `/* or none, if there is one */`

func (b binding) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	query, args = bind(query, args)
	n, err := b.Conn.Exec(ctx, query, args...)
	if isDuplicate(err) && strings.HasSuffix(query, orNone) {
		return 0, nil
	}
	if n == 2 && strings.HasSuffix(query, unlessThere) {
		n = 0
	}
	return n, err
}

func (b binding) Query(ctx context.Context, query string, args ...any) (sqldb.Rows, error) {
	query, args = bind(query, args)
	return b.Conn.Query(ctx, query, args...)
}

// bind returns a text with a question mark for each use of a parameter, and the arguments in
// that order. A list becomes comma-separated values, an empty one NULL. A text without marks has
// its question marks.
func bind(query string, args []any) (string, []any) {
	if !strings.Contains(query, mark) {
		return query, args
	}
	var text strings.Builder
	var bound []any
	for i, part := range strings.Split(query, mark) {
		n, err := strconv.Atoi(part)
		if i%2 == 0 || err != nil {
			text.WriteString(part)
			continue
		}
		switch list := args[n-1].(type) {
		case []int:
			writeIntegers(&text, list)
		case []int64:
			writeIntegers(&text, list)
		case []string:
			text.WriteString(placeholders(len(list)))
			for _, s := range list {
				bound = append(bound, s)
			}
		default:
			text.WriteByte('?')
			bound = append(bound, list)
		}
	}
	return text.String(), bound
}

func writeIntegers[N int | int64](text *strings.Builder, list []N) {
	if len(list) == 0 {
		text.WriteString("NULL")
	}
	for i, n := range list {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprint(text, n)
	}
}

func placeholders(n int) string {
	if n == 0 {
		return "NULL"
	}
	return strings.Repeat("?, ", n-1) + "?"
}

// briefly is a Conn whose statements wait for a lock for a second at most: a transaction of the
// application's may hold it indefinitely. The setting ends with the statement. MariaDB takes the
// first text, which is a comment on MySQL, and MySQL the hint.
type briefly struct{ sqldb.Conn }

func (b briefly) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return b.Conn.Exec(ctx, patience(query), args...)
}

func (b briefly) Query(ctx context.Context, query string, args ...any) (sqldb.Rows, error) {
	return b.Conn.Query(ctx, patience(query), args...)
}

func patience(query string) string {
	verb, rest, _ := strings.Cut(query, " ")
	return "/*M! SET STATEMENT innodb_lock_wait_timeout = 1 FOR */ " + verb + " /*+ SET_VAR(innodb_lock_wait_timeout = 1) */ " + rest
}

// encode turns times into microseconds since 1970.
func encode(arg any) any {
	if t, ok := arg.(*time.Time); ok {
		return sqldb.Micros(t)
	}
	return arg
}

// standstill is the number of seconds after which the server ends the transaction of a stalled
// relay: stopped, or cut off, it would keep its locks, and others could neither renew their leases
// nor settle what they took over from it.
const standstill = "3"

// relaying is the database for the transactions of relays, which hold locks that other relays
// wait for. The session's own timeout is restored at the commit; a session whose transaction failed
// keeps the short one, and is closed by the server when it is idle.
type relaying struct{ *database }

func (d relaying) Begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := d.database.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "SET SESSION wait_timeout = "+standstill); err != nil {
		_ = tx.Rollback() // it holds nothing
		return nil, err
	}
	return tx, nil
}

func (d relaying) Commit(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "SET SESSION wait_timeout = DEFAULT"); err != nil {
		return err
	}
	return d.database.Commit(ctx, tx)
}
