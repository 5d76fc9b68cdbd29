package soak

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/waybill-go/waybill/internal/loop"
)

const (
	keys  = 400
	perTx = 10 // orders, of neighbouring keys

	// unanswered is how long a frozen database is waited for before it is asked again.
	unanswered = 5 * time.Second
)

// ledger holds the orders of a system, numbered 1, 2, … for each key, and their effects in the order of their rows.
type ledger struct{ *sql.DB }

// create makes the tables by the given words, unless they are there.
func (l ledger) create(ctx context.Context, words string, postgres bool) error {
	id, at := "BIGINT AUTO_INCREMENT UNIQUE", "DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)"
	if postgres {
		id, at = "BIGINT GENERATED ALWAYS AS IDENTITY", "TIMESTAMPTZ DEFAULT CLOCK_TIMESTAMP()"
	}
	for _, table := range []string{
		"orders (k INT, n BIGINT, PRIMARY KEY (k, n))",
		"effects (id " + id + ", k INT, n BIGINT, at " + at + ", PRIMARY KEY (k, n, id))",
		"sent (k INT PRIMARY KEY, n BIGINT)", // how many orders a key has
		"done (k INT PRIMARY KEY, n BIGINT)", // how many of them have an effect
	} {
		if _, err := l.ExecContext(ctx, words+" "+table); err != nil {
			return err
		}
	}
	rows := make([]string, keys)
	for k := range rows {
		rows[k] = fmt.Sprintf("(%d, 0)", k)
	}
	for _, table := range []string{"sent", "done"} {
		var there int
		if err := l.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(&there); err != nil {
			return err
		}
		if there > 0 {
			continue
		}
		if _, err := l.ExecContext(ctx, "INSERT INTO "+table+" VALUES "+strings.Join(rows, ", ")); err != nil {
			return err
		}
	}
	return nil
}

// order writes the next orders of the keys from first on, and returns their numbers.
func order(ctx context.Context, tx *sql.Tx, first int) (numbers []int, err error) {
	these := fmt.Sprintf(" WHERE k >= %d AND k < %d", first, first+perTx)
	if _, err := tx.ExecContext(ctx, "UPDATE sent SET n = n + 1"+these); err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders SELECT k, n FROM sent"+these); err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, "SELECT n FROM sent"+these+" ORDER BY k")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, rows.Err()
}

// handle writes the effect of an order.
func handle(ctx context.Context, tx *sql.Tx, key, number int) error {
	first := fmt.Sprintf("NOT EXISTS (SELECT 1 FROM effects WHERE k = %d AND n = %d)", key, number)
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE done SET n = n + 1 WHERE k = %d AND %s", key, first)); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO effects (k, n) VALUES (%d, %d)", key, number))
	return err
}

// totals returns how many orders there are, and how many of them have an effect: the second effect of one order must not hide
// that another has none.
func (l ledger) totals(ctx context.Context) (orders, effects int, err error) {
	ctx, cancel := context.WithTimeout(ctx, unanswered)
	defer cancel()
	err = l.QueryRowContext(ctx, "SELECT (SELECT SUM(n) FROM sent), (SELECT SUM(n) FROM done)").Scan(&orders, &effects)
	return orders, effects, err
}

// patientTotals is totals while the database may be away.
func (l ledger) patientTotals(ctx context.Context) (orders, effects int, err error) {
	for {
		if orders, effects, err = l.totals(ctx); err == nil || ctx.Err() != nil {
			return orders, effects, err
		}
		loop.Sleep(ctx, 100*time.Millisecond)
	}
}

// verdict counts what must not be.
type verdict struct{ Lost, Doubled, Invented, Reordered int }

func (l ledger) judge(ctx context.Context) (v verdict, err error) {
	for _, check := range []struct {
		into *int
		sql  string
	}{
		{&v.Lost, "SELECT COUNT(*) FROM orders o LEFT JOIN (SELECT DISTINCT k, n FROM effects) e ON e.k = o.k AND e.n = o.n WHERE e.k IS NULL"},
		{&v.Invented, "SELECT COUNT(*) FROM effects e LEFT JOIN orders o ON o.k = e.k AND o.n = e.n WHERE o.k IS NULL"},
		{&v.Doubled, "SELECT COUNT(*) FROM (SELECT 1 AS one FROM effects GROUP BY k, n HAVING COUNT(*) > 1) d"},
		{&v.Reordered, "SELECT COUNT(*) FROM (SELECT n, MAX(n) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS latest FROM effects) e WHERE n < latest"},
	} {
		if err := l.QueryRowContext(ctx, check.sql).Scan(check.into); err != nil {
			return v, err
		}
	}
	return v, nil
}

// TestLedger: the judgement sees an order without its effect, an effect that came twice, one of no order, and one that
// came after a later one of its key; and none of it where all is well.
func TestLedger(t *testing.T) {
	t.Parallel()
	dsn, err := mysql.ParseDSN(env("MYSQL_URL", "root@tcp(127.0.0.1:3306)/"))
	if err != nil {
		t.Fatal(err)
	}
	dsn.DBName = "test"
	for driver, address := range map[string]string{
		"pgx":   env("POSTGRES_URL", "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"),
		"mysql": dsn.FormatDSN(),
	} {
		for _, test := range []struct {
			name    string
			effects [][2]int // of the orders 1 and 2 of the keys 0 to 9: key and number
			want    verdict
		}{
			{"all is well", [][2]int{{1, 1}, {0, 1}, {0, 2}, {1, 2}}, verdict{}},
			{"other keys between", [][2]int{{1, 1}, {1, 2}, {0, 1}, {0, 2}}, verdict{}},
			{"lost", [][2]int{{1, 1}, {0, 1}, {0, 2}}, verdict{Lost: 1}},
			{"doubled", [][2]int{{1, 1}, {0, 1}, {0, 2}, {1, 2}, {1, 2}}, verdict{Doubled: 1}},
			{"one doubled, one lost", [][2]int{{1, 1}, {1, 1}, {0, 1}, {0, 2}}, verdict{Doubled: 1, Lost: 1}},
			{"invented", [][2]int{{1, 1}, {0, 1}, {0, 2}, {1, 2}, {1, 3}}, verdict{Invented: 1}},
			{"reordered", [][2]int{{1, 1}, {0, 2}, {0, 1}, {1, 2}}, verdict{Reordered: 1}},
		} {
			t.Run(driver+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				if got := judged(t, driver, address, test.effects); got != test.want {
					t.Errorf("the verdict is %+v, want %+v", got, test.want)
				}
			})
		}
	}
}

// judged returns the verdict on the effects of two orders of each of the keys 0 and 1; other keys have theirs.
func judged(t *testing.T, driver, address string, effects [][2]int) verdict {
	t.Helper()
	db, err := sql.Open(driver, address)
	must(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1) // which has the tables
	l := ledger{db}
	must(t, l.create(t.Context(), "CREATE TEMPORARY TABLE", driver == "pgx"))
	for range 2 {
		must(t, inTx(t.Context(), db, func(tx *sql.Tx) error {
			numbers, err := order(t.Context(), tx, 0)
			for k, n := range numbers {
				if k > 1 {
					err = errors.Join(err, handle(t.Context(), tx, k, n))
				}
			}
			return err
		}))
	}
	for _, e := range effects {
		must(t, inTx(t.Context(), db, func(tx *sql.Tx) error { return handle(t.Context(), tx, e[0], e[1]) }))
	}
	orders, done, err := l.totals(t.Context())
	must(t, err)
	v, err := l.judge(t.Context())
	must(t, err)
	// An effect of no order is counted too; the verdict tells of it.
	if want := 2*perTx - v.Lost + v.Invented; orders != 2*perTx || done != want {
		t.Errorf("%d of %d orders have an effect, want %d of %d", done, orders, want, 2*perTx)
	}
	return v
}

func inTx(ctx context.Context, db *sql.DB, fn func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // of nothing once it has committed
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func env(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}
