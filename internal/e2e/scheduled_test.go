package e2e

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/schedule"
)

// agenda is a database in which messages are scheduled.
type agenda struct {
	cfg   opener.StoreConfig
	db    *sql.DB
	store opener.SQLStore
	*schedule.Scheduler[*sql.Tx]
}

// onAgendas runs a story on each kind of store that keeps schedules; in a kind of session of
// PostgreSQL's on that one.
func onAgendas(t *testing.T, story func(t *testing.T, a *agenda)) {
	w := plainWorld(t)
	stores := map[string]opener.StoreConfig{"postgres": {URL: w.dsn, Schema: w.schema}}
	if !inKindOfSession() {
		stores["mariadb"] = opener.StoreConfig{URL: newMariaDB(t)}
		stores["sqlite"] = opener.StoreConfig{URL: "sqlite:" + filepath.Join(t.TempDir(), "as.db"), Create: true}
	}
	for kind, cfg := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			story(t, newAgenda(t, cfg))
		})
	}
}

// newMariaDB makes a database for one test and returns its URL.
func newMariaDB(t *testing.T) string {
	t.Helper()
	server := cmp.Or(os.Getenv("MYSQL_STORE"), "mariadb://root@127.0.0.1:3306/test")
	db, _, err := opener.OpenSQL(t.Context(), opener.StoreConfig{URL: server})
	if err != nil {
		t.Fatalf("MariaDB does not answer (%v); start it with: make services", err)
	}
	name := "e2e_" + waybill.NewID()[24:]
	if _, err := db.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := db.Exec("DROP DATABASE " + name); err != nil {
			t.Error(err)
		}
		db.Close()
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func newAgenda(t *testing.T, cfg opener.StoreConfig) *agenda {
	t.Helper()
	db, store, err := opener.OpenSQL(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%v; start the servers with: make services", err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := store.Migrate(t.Context(), "", 0); err != nil {
		t.Fatal(err)
	}
	s, err := schedule.NewScheduler(store.(schedule.Store[*sql.Tx]), schedule.Config{Source: "shop", Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return &agenda{cfg, db, store, s}
}

// serial reports whether transactions that write run one after the other.
func (a *agenda) serial() bool { return strings.HasPrefix(a.cfg.URL, "sqlite:") }

// tx runs fn in a transaction, which it repeats on conflicts.
func (a *agenda) tx(t *testing.T, fn func(ctx context.Context, tx *sql.Tx) error) {
	t.Helper()
	for {
		_, err := a.store.Transact(t.Context(), func(ctx context.Context, tx *sql.Tx) (outbox.Batch, error) { return outbox.Batch{}, fn(ctx, tx) })
		if err == nil {
			return
		}
		if !waybill.IsConflict(err) {
			t.Fatal(err)
		}
	}
}

// start runs a relay and a runner of schedules.
func (a *agenda) start(t *testing.T, pub contract.Publisher) {
	t.Helper()
	r, err := relay.New(a.store, pub, quick(relay.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	runner, err := schedule.NewRunner(a.store.(schedule.Source), schedule.RunnerConfig{PollInterval: 20 * time.Millisecond, Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), r.Run)
	run(t, t.Context(), runner.Run)
}

// later schedules a message after a delay.
func (a *agenda) later(t *testing.T, id string, delay time.Duration) {
	t.Helper()
	a.tx(t, func(ctx context.Context, tx *sql.Tx) error {
		_, err := a.After(ctx, tx, waybill.Message{ID: id, Topic: "orders"}, delay)
		return err
	})
}

// TestScheduledOnce (AS-58) lets three relays and three runners work on what is scheduled: each message
// and each occurrence is published once, under its id, not before its time, and what was
// cancelled never. The first attempt to publish fails, so that each goes out in a second one.
//
//test:sessions
func TestScheduledOnce(t *testing.T) {
	t.Parallel()
	onAgendas(t, func(t *testing.T, a *agenda) {
		const count = 20
		var early atomic.Int64
		var failed, seen sync.Map
		pub := &recorder{fail: func(m contract.Outgoing) error {
			if time.Now().Add(10*time.Millisecond).Before(m.Time) || time.Now().Add(10*time.Millisecond).Before(m.DeliverAt) {
				early.Add(1)
			}
			if _, again := failed.LoadOrStore(m.ID, true); !again {
				return errors.New("the answer is lost")
			}
			return nil
		}}
		for i := range count {
			a.later(t, fmt.Sprintf("m%d", i), time.Second)
			a.later(t, fmt.Sprintf("cancelled%d", i), 1500*time.Millisecond)
		}
		a.tx(t, func(ctx context.Context, tx *sql.Tx) error {
			return a.Put(ctx, tx, schedule.Recurring{Name: "tick", Every: time.Second, MaxExecutions: 3, Message: waybill.Message{Topic: "orders"}})
		})
		for i := range count {
			a.tx(t, func(ctx context.Context, tx *sql.Tx) error {
				if ok, err := a.Cancel(ctx, tx, fmt.Sprintf("cancelled%d", i)); !ok || err != nil {
					return fmt.Errorf("Cancel() = %v, %w, want true", ok, err)
				}
				return nil
			})
		}
		for range 3 {
			a.start(t, pub)
		}
		eventually(t, "all are published", func() bool { return len(pub.ids()) >= count+3 })
		a.later(t, "last", 2*time.Second) // behind all that was cancelled
		eventually(t, "the last is published", func() bool { return pub.count("last") == 1 })
		if n := early.Load(); n > 0 {
			t.Errorf("%d were published before their time", n)
		}
		ids := pub.ids()
		for _, id := range ids {
			if _, twice := seen.LoadOrStore(id, true); twice || strings.HasPrefix(id, "cancelled") {
				t.Errorf("%s was published, want it once, or never if it was cancelled", id)
			}
		}
		if len(ids) != count+4 {
			t.Errorf("%d messages were published, want %d", len(ids), count+4)
		}
		a.tx(t, func(ctx context.Context, tx *sql.Tx) error {
			ok, err := a.Cancel(ctx, tx, "m0")
			if ok {
				t.Error("Cancel() of what was published is true, want false")
			}
			return err
		})
	})
}

// TestScheduledRolledBack (AS-59) schedules in transactions that roll back: nothing of it comes, nor does
// something that is in the past.
//
//test:sessions
func TestScheduledRolledBack(t *testing.T) {
	t.Parallel()
	onAgendas(t, func(t *testing.T, a *agenda) {
		pub := &recorder{}
		a.start(t, pub)
		undo := errors.New("undo")
		_, err := a.store.Transact(t.Context(), func(ctx context.Context, tx *sql.Tx) (outbox.Batch, error) {
			if _, err := a.After(ctx, tx, waybill.Message{ID: "m", Topic: "orders"}, time.Millisecond); err != nil {
				return outbox.Batch{}, err
			}
			var invalid *waybill.InvalidError
			if _, err := a.At(ctx, tx, waybill.Message{ID: "past", Topic: "orders"}, time.Now().Add(-time.Hour)); !errors.As(err, &invalid) {
				t.Errorf("At() in the past: %v, want an InvalidError", err)
			}
			if err := a.Put(ctx, tx, schedule.Recurring{Name: "tick", Every: time.Second, Message: waybill.Message{Topic: "orders"}}); err != nil {
				return outbox.Batch{}, err
			}
			return outbox.Batch{}, undo
		})
		if !errors.Is(err, undo) {
			t.Fatal(err)
		}
		a.later(t, "last", 2*time.Second)
		eventually(t, "the last is published", func() bool { return pub.count("last") == 1 })
		if ids := pub.ids(); len(ids) != 1 {
			t.Errorf("published %v, want the last only", ids)
		}
	})
}
