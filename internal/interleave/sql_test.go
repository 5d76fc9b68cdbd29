package interleave_test

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/waybill-go/waybill/internal/interleave"
)

// tablesToWipe are the tables of the SQL stores that scenarios write to.
var tablesToWipe = []string{
	"outbox_waiting", "outbox_archive", "scheduled", "schedules", "sagas", "saga_log", "dead_letters", "audit_log",
	"inbox_leases", "consumer_attempts", "relays", "replays",
}

// sqlParty is a program that uses database/sql. conflict marks the errors of its own transactions.
func sqlParty(db *sql.DB, gate *interleave.Gate, open func(*sql.DB) (store[*sql.Tx], error), conflict func(error) error) *party[*sql.Tx] {
	return &party[*sql.Tx]{
		gate: gate,
		open: func() (store[*sql.Tx], error) { return open(db) },
		begin: func(ctx context.Context) (*sql.Tx, error) {
			tx, err := db.BeginTx(ctx, nil)
			return tx, conflict(err)
		},
		commit:   func(_ context.Context, tx *sql.Tx) error { return conflict(tx.Commit()) },
		rollback: func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
		effect: func(ctx context.Context, tx *sql.Tx, name string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", name)
			return err
		},
		exec: func(ctx context.Context, tx *sql.Tx, statement string) error {
			_, err := tx.ExecContext(ctx, statement)
			return conflict(err)
		},
	}
}

// sqlEnv makes the parts of an environment that are the same in MariaDB and SQLite.
func sqlEnv(board *interleave.Board, control *sql.DB, prefix string, first ...string) *env[*sql.Tx] {
	settings := prefix + "settings"
	statements := append(first, "DELETE FROM effects", "UPDATE "+settings+" SET clock_offset_us = 0 WHERE clock_offset_us <> 0",
		"UPDATE "+prefix+"relay_lanes SET owner = NULL, since = NULL WHERE owner IS NOT NULL")
	for _, table := range tablesToWipe {
		statements = append(statements, "DELETE FROM "+prefix+table)
	}
	wipe := strings.Join(statements, ";\n")
	return &env[*sql.Tx]{
		board: board,
		wipe: func(ctx context.Context) error {
			_, err := control.ExecContext(ctx, wipe)
			return err
		},
		advance: func(ctx context.Context, d time.Duration) error {
			_, err := control.ExecContext(ctx, "UPDATE "+settings+" SET clock_offset_us = clock_offset_us + ?", d.Microseconds())
			return err
		},
		effects: func(ctx context.Context) (names []string, err error) {
			rows, err := control.QueryContext(ctx, "SELECT name FROM effects ORDER BY name")
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			for rows.Next() {
				var name string
				if err := rows.Scan(&name); err != nil {
					return nil, err
				}
				names = append(names, name)
			}
			return names, rows.Err()
		},
	}
}
