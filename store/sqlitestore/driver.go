package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"time"

	"github.com/waybill-go/waybill/internal/sqldb"
)

// locked is a database whose transactions hold the write lock from the start.
type locked struct {
	sqldb.DB
	lock string
}

var _ sqldb.Driver[*sql.Tx] = (*locked)(nil)

// Begin starts a transaction and waits for the write lock.
func (d *locked) Begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := d.DB.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, d.lock); err != nil {
		_ = tx.Rollback() // it holds nothing
		return nil, err
	}
	return tx, nil
}

// CommitAfter runs last only in the transaction that was begun: in none it would commit by itself.
func (d *locked) CommitAfter(ctx context.Context, tx *sql.Tx, last func(conn sqldb.Conn) error) error {
	_, err := tx.ExecContext(ctx, "BEGIN /* fails within a transaction */")
	if err == nil {
		return errEnded
	}
	if !strings.Contains(err.Error(), withinText) {
		return err
	}
	return d.DB.CommitAfter(ctx, tx, last)
}

// Rollback ends the transaction. A statement that failed may have done so itself.
func (d *locked) Rollback(tx *sql.Tx) error {
	if err := d.DB.Rollback(tx); err != nil && !strings.Contains(err.Error(), endedText) {
		return err
	}
	return nil
}

// encode turns arguments into what SQLite stores: times into microseconds, lists into JSON.
func encode(arg any) any {
	switch v := arg.(type) {
	case *time.Time:
		return sqldb.Micros(v)
	case []int, []int64, []string:
		text, err := json.Marshal(v)
		if err != nil { // cannot happen with these types
			return "[]"
		}
		if string(text) == "null" {
			return "[]"
		}
		return string(text)
	}
	return arg
}
