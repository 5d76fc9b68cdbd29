package conformance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestPostgresStore_AwaitsStandby: what lets somebody skip a message, or answer a request again, waits until a synchronous standby
// has it, as who wrote it may have abandoned that wait. With no such standby it does not wait.
func TestPostgresStore_AwaitsStandby(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), ownserver.Postgres(t))
	must(t, err)
	t.Cleanup(pool.Close)
	a := awaiting{t: t, pool: pool}
	for _, compact := range []bool{false, true} {
		s, err := pgstore.New(pool, pgstore.Config{CompactInbox: compact})
		must(t, err)
		if !compact {
			_, err = s.Migrate(t.Context(), pgstore.MigrateOptions{LockWait: patience})
			must(t, err)
		}
		reads := a.reads(s, map[bool]string{false: "full", true: "compact"}[compact])
		for what, read := range reads {
			if err := read(t.Context()); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		a.setStandby("'nobody'")
		for what, read := range reads {
			a.waits(what, read)
		}
		a.setStandby("''")
		for what, read := range reads {
			if err := read(t.Context()); err != nil {
				t.Errorf("%s without a standby: %v", what, err)
			}
		}
	}
}

// awaiting is a server whose standby is away.
type awaiting struct {
	t    *testing.T
	pool *pgxpool.Pool
}

// reads stores a bit of everything and returns what finds it there.
func (a *awaiting) reads(s *pgstore.Store[pgx.Tx], consumer string) map[string]func(ctx context.Context) error {
	t := a.t
	t.Helper()
	record := func(id string) inbox.Record {
		m := waybill.Message{ID: id, Topic: "orders", Source: "shop", Payload: []byte(`{}`)}
		m.Complete()
		return inbox.RecordOf(consumer, &m)
	}
	one, many := record("one"), []inbox.Record{record("two"), record("three")}
	skips := func(context.Context, pgx.Tx) error { return nil }
	_, err := s.ProcessOnce(t.Context(), one, skips)
	must(t, err)
	_, err = s.ProcessBatch(t.Context(), many, func(context.Context, pgx.Tx, []int) error { return nil })
	must(t, err)

	held := lease.Request{Key: consumer, TTL: time.Hour}
	begun, err := s.TryBegin(t.Context(), held)
	must(t, err)
	_, err = s.MarkProcessed(t.Context(), lease.Lease{Key: consumer, ID: begun.LeaseID})
	must(t, err)

	partition := inbox.Partition{Group: consumer, Topic: "orders"}
	_, err = s.TakePartition(t.Context(), partition, nil, contract.Progress{Next: 7})
	must(t, err)
	must(t, s.SaveResponse(t.Context(), consumer, []byte("created"), time.Hour))

	return map[string]func(ctx context.Context) error{
		consumer + ": a copy": func(ctx context.Context) error {
			outcome, err := s.ProcessOnce(ctx, one, skips)
			return want(outcome, inbox.Duplicate, err)
		},
		consumer + ": copies": func(ctx context.Context) error {
			outcomes, err := s.ProcessBatch(ctx, many, func(context.Context, pgx.Tx, []int) error { return errors.New("there is a new one") })
			if err == nil {
				err = want(outcomes[0], inbox.Duplicate, nil)
			}
			return err
		},
		consumer + ": a key that is processed": func(ctx context.Context) error {
			answer, err := s.TryBegin(ctx, held)
			return want(answer.Status, lease.Processed, err)
		},
		consumer + ": progress": func(ctx context.Context) error {
			progress, _, err := s.ReadProgress(ctx, partition)
			return want(progress.Next, 7, err)
		},
		consumer + ": a response": func(ctx context.Context) error {
			response, _, err := s.FindResponse(ctx, consumer)
			return want(string(response), "created", err)
		},
	}
}

func want[T comparable](got, want T, err error) error {
	if err == nil && got != want {
		return errors.New("something else is there")
	}
	return err
}

// waits reads until that waits for the standby, and ends the wait.
func (a *awaiting) waits(what string, read func(ctx context.Context) error) {
	a.t.Helper()
	ctx, end := context.WithCancel(a.t.Context())
	defer end()
	answer := make(chan error, 1)
	go func() { answer <- read(ctx) }()
	wait := func() (n int) {
		must(a.t, a.pool.QueryRow(a.t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Scan(&n))
		return n
	}
	waitFor(a.t, what+" waits for the standby", func() bool { return wait() == 1 })
	end()
	if err := <-answer; err == nil {
		a.t.Errorf("%s: no error while the standby is away", what)
	}
	waitFor(a.t, what+" waits no longer", func() bool { return wait() == 0 })
}

// setStandby names the synchronous standby, and returns when every session knows.
func (a *awaiting) setStandby(name string) {
	a.t.Helper()
	a.exec("ALTER SYSTEM SET synchronous_standby_names = " + name)
	a.exec("SELECT pg_reload_conf()")
	waitFor(a.t, "the setting is in force", func() bool {
		a.pool.Reset()
		var now string
		must(a.t, a.pool.QueryRow(a.t.Context(), "SELECT quote_literal(current_setting('synchronous_standby_names'))").Scan(&now))
		return now == name
	})
}

func (a *awaiting) exec(sql string) {
	a.t.Helper()
	_, err := a.pool.Exec(a.t.Context(), sql)
	must(a.t, err)
}
