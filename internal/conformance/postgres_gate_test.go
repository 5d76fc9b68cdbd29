package conformance

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

func recordOf(id string) inbox.Record {
	m := waybill.Message{ID: id, Topic: "orders", Source: "shop", Payload: []byte(`{}`)}
	m.Complete()
	return inbox.RecordOf("billing", &m)
}

// testGateTimeout has a second delivery of a message meet the transaction of the first.
func testGateTimeout[Tx any](t *testing.T, patient, impatient *pgstore.Store[Tx], limit func(ctx context.Context, tx Tx) string) {
	t.Helper()
	batch := func() error {
		_, err := impatient.ProcessBatch(t.Context(), []inbox.Record{recordOf("b"), recordOf("a")}, func(context.Context, Tx, []int) error {
			return errors.New("the handler of a message ran that another transaction handles")
		})
		return err
	}
	once := func() error {
		_, err := impatient.ProcessOnce(t.Context(), recordOf("a"), func(context.Context, Tx) error {
			return errors.New("the handler of a message ran that another transaction handles")
		})
		return err
	}
	_, err := patient.ProcessOnce(t.Context(), recordOf("a"), func(context.Context, Tx) error {
		for name, try := range map[string]func() error{"ProcessOnce": once, "ProcessBatch": batch} {
			if err := try(); !errors.Is(err, inbox.ErrBusy) || !waybill.IsConflict(err) {
				t.Errorf("%s() = %v, want inbox.ErrBusy as a conflict", name, err)
			}
		}
		return nil
	})
	must(t, err)
	for _, id := range []string{"b", "c"} {
		_, err := impatient.ProcessOnce(t.Context(), recordOf(id), func(ctx context.Context, tx Tx) error {
			if got := limit(ctx, tx); got != "7s" {
				t.Errorf("the handler's own lock_timeout is %s, want the session's, 7s", got)
			}
			return nil
		})
		must(t, err)
	}
	outcome, err := impatient.ProcessOnce(t.Context(), recordOf("a"), func(context.Context, Tx) error { return nil })
	if err != nil || outcome != inbox.Duplicate {
		t.Errorf("after the first has committed ProcessOnce() = %v, %v, want duplicate", outcome, err)
	}
}

func TestPostgresGateTimeout(t *testing.T) {
	const limitSQL = "SELECT current_setting('lock_timeout')"
	p := newPostgres(t, map[string]string{"lock_timeout": "7s"}, pgstore.Config{})
	t.Run("pgx", func(t *testing.T) {
		cfg := p.schema(t)
		patient, err := pgstore.New(p.pool, cfg)
		must(t, err)
		cfg.GateTimeout = 50 * time.Millisecond
		impatient, err := pgstore.New(p.pool, cfg)
		must(t, err)
		testGateTimeout(t, patient, impatient, func(ctx context.Context, tx pgx.Tx) (limit string) {
			must(t, tx.QueryRow(ctx, limitSQL).Scan(&limit))
			return limit
		})
	})
	t.Run("sql", func(t *testing.T) {
		cfg := p.schema(t)
		patient, err := pgstore.NewSQL(p.db, cfg)
		must(t, err)
		cfg.GateTimeout = 50 * time.Millisecond
		impatient, err := pgstore.NewSQL(p.db, cfg)
		must(t, err)
		testGateTimeout(t, patient, impatient, func(ctx context.Context, tx *sql.Tx) (limit string) {
			must(t, tx.QueryRowContext(ctx, limitSQL).Scan(&limit))
			return limit
		})
	})
	var limit string
	must(t, p.pool.QueryRow(t.Context(), limitSQL).Scan(&limit))
	if limit != "7s" {
		t.Errorf("a session of the pool has the lock_timeout %s, want 7s", limit)
	}
	for _, d := range []time.Duration{-1, time.Microsecond, 2 * time.Hour} {
		if _, err := pgstore.New(p.pool, pgstore.Config{GateTimeout: d}); !waybill.IsPermanent(err) {
			t.Errorf("New with GateTimeout %v = %v, want an InvalidError", d, err)
		}
	}
}

// TestPostgresHandlerTransaction uses everything that a pgx transaction has, in one that was
// begun together with its first statement.
func TestPostgresHandlerTransaction(t *testing.T) {
	p := newPostgres(t, nil, pgstore.Config{})
	cfg := p.schema(t)
	store, err := pgstore.New(p.pool, cfg)
	must(t, err)
	effects, ctx := tableOf(cfg, "effects"), t.Context()
	var kept pgx.Tx
	_, err = store.ProcessOnce(ctx, recordOf("a"), func(ctx context.Context, tx pgx.Tx) error {
		kept = tx
		var level string
		must(t, tx.QueryRow(ctx, "SELECT current_setting('transaction_isolation')").Scan(&level))
		if level != "read committed" {
			t.Errorf("the handler runs at %s", level)
		}
		_, err := tx.CopyFrom(ctx, pgx.Identifier{cfg.Schema, "effects"}, []string{"name"}, pgx.CopyFromRows([][]any{{"copied"}}))
		must(t, err)
		nested, err := tx.Begin(ctx)
		must(t, err)
		_, err = nested.Exec(ctx, "INSERT INTO "+effects+" VALUES ('nested')")
		must(t, err)
		must(t, nested.Rollback(ctx))
		object := tx.LargeObjects()
		oid, err := object.Create(ctx, 0)
		must(t, err)
		must(t, object.Unlink(ctx, oid))
		batch := &pgx.Batch{}
		batch.Queue("INSERT INTO " + effects + " VALUES ('batch')")
		must(t, tx.SendBatch(ctx, batch).Close())
		_, err = tx.Prepare(ctx, "handler", "SELECT 1")
		must(t, err)
		return tx.Conn().Deallocate(ctx, "handler")
	})
	must(t, err)
	if err := kept.Commit(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("Commit() of a transaction that has ended = %v, want ErrTxClosed", err)
	}
	rows, err := p.pool.Query(ctx, "SELECT name FROM "+effects+" ORDER BY name")
	must(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	if len(names) != 2 || names[0] != "batch" || names[1] != "copied" {
		t.Errorf("effects = %v, want batch and copied", names)
	}
}

// TestPostgresGateFails lets the statement fail that travels with BEGIN, on a pool of one
// connection: the same session must be fit for the next transaction.
func TestPostgresGateFails(t *testing.T) {
	p := newPostgres(t, nil, pgstore.Config{})
	cfg := p.schema(t)
	pool := onePool(t, p.pool.Config())
	store, err := pgstore.New(pool, cfg)
	must(t, err)
	session := func() (pid uint32) {
		t.Helper()
		must(t, pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
			if s := c.Conn().PgConn().TxStatus(); s != 'I' {
				t.Errorf("the session is in the state %q, want idle", s)
			}
			pid = c.Conn().PgConn().PID()
			return nil
		}))
		return pid
	}
	first := session()
	refused := recordOf("a")
	refused.Extra = []byte("{")    // no JSON: the server says so
	unsendable := recordOf("\x00") // no text: the server says so, too
	for _, rec := range []inbox.Record{refused, unsendable} {
		for range 2 {
			if _, err := store.ProcessOnce(t.Context(), rec, func(context.Context, pgx.Tx) error { return nil }); err == nil {
				t.Error("ProcessOnce() = nil for a record that cannot be stored")
			}
			if _, err := store.ProcessBatch(t.Context(), []inbox.Record{rec, recordOf("b")}, func(context.Context, pgx.Tx, []int) error { return nil }); err == nil {
				t.Error("ProcessBatch() = nil for a record that cannot be stored")
			}
		}
	}
	outcome, err := store.ProcessOnce(t.Context(), recordOf("a"), func(context.Context, pgx.Tx) error { return nil })
	if err != nil || outcome != inbox.Processed {
		t.Errorf("ProcessOnce() = %v, %v after gates that failed, want processed", outcome, err)
	}
	if last := session(); last != first {
		t.Error("the session was closed; it only had to be rolled back")
	}
}

func onePool(t *testing.T, cfg *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}
