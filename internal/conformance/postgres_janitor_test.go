package conformance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/store/pgstore"
)

const month = 30 * 24 * time.Hour

// cleaning is a store with three rows of each kind that are past a month.
type cleaning struct {
	*testing.T
	ctx   context.Context
	pool  *pgxpool.Pool
	cfg   pgstore.Config
	store *pgstore.Store[pgx.Tx]
}

func newCleaning(t *testing.T) *cleaning {
	t.Helper()
	p := newPostgres(t, nil, pgstore.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	c := &cleaning{T: t, ctx: ctx, pool: p.pool, cfg: p.schema(t)}
	c.store = c.open(p.pool)
	for i := range 3 {
		processed, tried, dead := c.message("processed", i), c.message("tried", i), c.message("dead", i)
		_, err := inbox.Process(ctx, c.store, "billing", &processed, func(context.Context, pgx.Tx) error { return nil })
		must(t, err)
		must(t, c.store.SaveAttempt(ctx, inbox.KeyOf("billing", &tried), contract.FailedAttempt{Count: 1, Error: "no"}))
		_, err = c.store.BuryMessage(ctx, inbox.Letter{Record: inbox.RecordOf("billing", &dead), Message: dead, Reason: waybill.ReasonRejected, Attempts: 1})
		must(t, err)
		_, err = c.store.TryBegin(ctx, lease.Request{Key: fmt.Sprint("key", i), TTL: time.Minute})
		must(t, err)
		must(t, c.store.RecordAudit(ctx, deadletter.Entry{Action: deadletter.ActReveal, By: "ann"}))
		c.endSaga(fmt.Sprint("order", i))
		must(t, c.store.SaveResponse(ctx, fmt.Sprint("key", i), nil, time.Minute))
	}
	c.exec(clockSQL(c.cfg, month+time.Hour))
	return c
}

// endSaga stores an instance that has ended.
func (c *cleaning) endSaga(key string) {
	c.Helper()
	in := saga.Instance{ID: saga.ID{Tenant: "default", Saga: "orders", Key: key}, Status: saga.Completed}
	_, err := c.store.Transact(c.ctx, func(ctx context.Context, tx pgx.Tx) (outbox.Batch, error) {
		written, err := c.store.WriteSaga(ctx, tx, &in, saga.Entry{Status: in.Status})
		if err == nil && !written {
			err = errors.New("the instance was not written")
		}
		return outbox.Batch{}, err
	})
	must(c.T, err)
}

func (c *cleaning) message(id string, i int) waybill.Message {
	m := waybill.Message{ID: fmt.Sprint(id, i), Topic: "orders", Source: "shop"}
	m.Complete()
	return m
}

func (c *cleaning) open(pool *pgxpool.Pool) *pgstore.Store[pgx.Tx] {
	c.Helper()
	store, err := pgstore.New(pool, c.cfg)
	must(c.T, err)
	return store
}

func (c *cleaning) exec(stmt string, args ...any) {
	c.Helper()
	_, err := c.pool.Exec(c.ctx, stmt, args...)
	must(c.T, err)
}

func (c *cleaning) purge(store janitor.Store, kind janitor.Kind) (int64, error) {
	return store.PurgeExpired(c.ctx, janitor.Rows{Kind: kind, OlderThan: month}, 100)
}

func (c *cleaning) wantPurged(kind janitor.Kind, want int64) {
	c.Helper()
	if n, err := c.purge(c.store, kind); n != want || err != nil {
		c.Errorf("PurgeExpired(%s) = %d, %v, want %d", kind, n, err, want)
	}
}

// begin starts a clean-up that stands still before its first statement with the given
// beginning, and returns once it does. end lets it go on, and returns what it has removed.
func (c *cleaning) begin(kind janitor.Kind, statement string) (end func() int64) {
	c.Helper()
	s := &stall{statement: statement, stalled: make(chan struct{}), released: make(chan struct{})}
	cfg, err := pgxpool.ParseConfig(postgresURL())
	must(c.T, err)
	cfg.ConnConfig.Tracer, cfg.MaxConns = s, 2
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	must(c.T, err)
	c.Cleanup(pool.Close)
	store, done := c.open(pool), make(chan error, 1)
	var n int64
	go func() {
		var err error
		n, err = c.purge(store, kind)
		done <- err
	}()
	select {
	case <-s.stalled:
	case err := <-done:
		c.Fatalf("PurgeExpired(%s) has ended before %q: %v", kind, statement, err)
	}
	return func() int64 {
		c.Helper()
		close(s.released)
		must(c.T, <-done)
		return n
	}
}

// TestPostgresJanitor_LockedRows: a row that another transaction holds is left out, without
// waiting for its end, and goes the next time.
func TestPostgresJanitor_LockedRows(t *testing.T) {
	t.Parallel()
	c := newCleaning(t)
	for _, kind := range []janitor.Kind{janitor.Inbox, janitor.Attempts, janitor.Leases, janitor.Letters, janitor.Sagas, janitor.Audit, janitor.Responses} {
		unlock := c.lockOne(kind)
		c.wantPurged(kind, 2)
		unlock()
		c.wantPurged(kind, 1)
	}
}

// lockOne locks a row that is past its retention.
func (c *cleaning) lockOne(kind janitor.Kind) (unlock func()) {
	c.Helper()
	condition := "true"
	if kind == janitor.Inbox {
		condition = "NOT dead"
	}
	tx, err := c.pool.Begin(c.ctx)
	must(c.T, err)
	unlock = func() { must(c.T, tx.Rollback(c.ctx)) }
	tag, err := tx.Exec(c.ctx, "SELECT 1 FROM "+tableOf(c.cfg, string(kind))+" WHERE "+condition+" LIMIT 1 FOR UPDATE")
	if err != nil || tag.RowsAffected() != 1 {
		unlock()
		c.Fatalf("%d rows of %s were locked (%v), want 1", tag.RowsAffected(), kind, err)
	}
	return unlock
}

// TestPostgresJanitor_OneAtATime: a janitor that finds another one at work on the same kind of
// rows leaves them to it, and goes on with other kinds.
func TestPostgresJanitor_OneAtATime(t *testing.T) {
	t.Parallel()
	c := newCleaning(t)
	end := c.begin(janitor.Inbox, "WITH plain AS")
	if n, err := c.purge(c.store, janitor.Inbox); n != 0 || !errors.Is(err, janitor.ErrBusy) {
		t.Errorf("PurgeExpired() = %d, %v while another one runs, want ErrBusy", n, err)
	}
	done, err := janitor.Purge(c.ctx, c.store, janitor.Rows{Kind: janitor.Inbox, OlderThan: month}, 100)
	if want := (janitor.Purged{Candidates: 3, Busy: true}); done != want || err != nil {
		t.Errorf("Purge() = %+v, %v while another one runs, want %+v", done, err, want)
	}
	c.wantPurged(janitor.Letters, 3)
	if n := end(); n != 3 {
		t.Errorf("the first one has removed %d rows, want 3", n)
	}
	c.wantPurged(janitor.Inbox, 0) // the lock has gone with its transaction
}

// sentColumns are those that a message takes along from the outbox.
const sentColumns = `lane, position, id, topic, direct, key, type, source, tenant, subject, payload, content_type, data_schema, ` +
	`correlation_id, causation_id, idempotency_key, trace_parent, trace_state, enqueued_at`

// TestPostgresJanitor_BehindLetter: a letter that was chosen, and that a message waits behind
// when it is about to go, stays, and so does the key's place.
func TestPostgresJanitor_BehindLetter(t *testing.T) {
	t.Parallel()
	c := newCleaning(t)
	outbox, letters, waiting := tableOf(c.cfg, "outbox"), tableOf(c.cfg, "dead_letters"), tableOf(c.cfg, "outbox_waiting")
	c.exec(`INSERT INTO ` + outbox + ` (topic, key, payload) VALUES ('orders', 'lonely', '{}'), ('orders', 'k', '{}')`)
	c.exec(`
WITH given AS (DELETE FROM ` + outbox + ` RETURNING *)
INSERT INTO ` + letters + ` (origin, reason, error, attempts, parks, first_failed_at, last_failed_at, ` + sentColumns + `)
SELECT 'relay', 'rejected', 'no', 1, true, enqueued_at - interval '60 days', enqueued_at - interval '60 days', ` + sentColumns + ` FROM given`)
	end := c.begin(janitor.Letters, "WITH compact AS")
	// As if it had committed between the snapshot of the choice and its lock.
	c.exec(`INSERT INTO ` + outbox + ` (topic, key, payload) VALUES ('orders', 'k', '{}')`)
	c.exec(`
WITH given AS (DELETE FROM ` + outbox + ` RETURNING *)
INSERT INTO ` + waiting + ` (` + sentColumns + `) SELECT ` + sentColumns + ` FROM given`)
	if n := end(); n != 4 {
		t.Errorf("%d letters were removed, want three of a consumer and the lonely one", n)
	}
	left, err := c.store.DeadLetters(c.ctx, deadletter.Filter{})
	must(t, err)
	if len(left) != 1 || left[0].Message.Key != "k" || !left[0].Parks || left[0].Behind != 1 {
		t.Errorf("letters = %+v, want the one that a message waits behind", left)
	}
}

// TestPostgresInboxSize takes the number of records from the server's statistics.
func TestPostgresInboxSize(t *testing.T) {
	t.Parallel()
	c := newCleaning(t)
	c.exec("ANALYZE " + tableOf(c.cfg, "inbox"))
	size, err := c.store.InboxSize(c.ctx)
	if err != nil || size.Records != 6 || (size.Oldest-month-time.Hour).Abs() > time.Minute {
		t.Errorf("InboxSize() = %+v, %v, want 6 records, the oldest of a month ago", size, err)
	}
}
