package e2e

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// sleepyConfig is a relay that polls so rarely that only a wake-up brings one message after another.
func sleepyConfig() relay.Config { return relay.Config{PollInterval: time.Minute} }

// wantWoken waits until the commit of a message has woken a sleeping relay. If that said meanwhile that
// it sleeps, which it does twice a minute, it may have looked by itself, and another message is committed.
func (w *world) wantWoken(t *testing.T, pub *recorder, id string, commit func(id string)) {
	t.Helper()
	try := 0
	eventually(t, "a message "+id+" wakes the relay", func() bool {
		try++
		return w.wakes(t, pub, fmt.Sprint(id, " ", try), commit)
	})
}

// wakes reports whether a message was published before a relay said again that it sleeps.
func (w *world) wakes(t *testing.T, pub *recorder, id string, commit func(id string)) bool {
	t.Helper()
	before := w.announcement(t)
	commit(id)
	eventually(t, "message "+id+" is published", func() bool { return pub.count(id) > 0 })
	return w.announcement(t) == before
}

// announcement changes whenever a relay says that it sleeps.
func (w *world) announcement(t *testing.T) int {
	t.Helper()
	return w.number(t, "SELECT last_value FROM "+w.table("wakeups"))
}

// insert returns what commits a message with plain SQL.
func (w *world) insert(t *testing.T) func(id string) {
	return func(id string) {
		t.Helper()
		w.exec(t, "INSERT INTO "+w.table("outbox")+" (id, topic, payload) VALUES ($1, 'orders', '{}')", id)
	}
}

// listeners counts the sessions that listen on the world's channel, as the server sees it.
func (w *world) listeners(t *testing.T) int {
	t.Helper()
	return w.number(t, "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN ' || $1", w.channel(t))
}

// channel returns the name of the channel on which the trigger notifies.
func (w *world) channel(t *testing.T) string {
	t.Helper()
	var name string
	err := w.pool.QueryRow(context.Background(), "SELECT substring(prosrc FROM 'waybill_[0-9a-f]{32}') FROM pg_proc WHERE oid = $1::regproc",
		w.table("complete_message")).Scan(&name)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// asleep waits until writers are asked to notify.
func (w *world) asleep(t *testing.T) {
	t.Helper()
	eventually(t, "the relay has announced that it sleeps", func() bool { return w.announced(t) })
}

func (w *world) announced(t *testing.T) bool {
	t.Helper()
	return w.number(t, "SELECT (last_value > extract(epoch FROM clock_timestamp()))::int FROM "+w.table("wakeups")) == 1
}

// TestPlainInsertWakesRelay: the trigger tells of commits that no Go program makes.
//
//test:sessions
func TestPlainInsertWakesRelay(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		pub := &recorder{}
		_, stop := w.startRelay(t, pub, sleepyConfig())
		w.asleep(t)
		for i := range 3 {
			w.wantWoken(t, pub, fmt.Sprint("m", i), func(id string) {
				w.psql(t, "INSERT INTO "+w.table("outbox")+" (id, topic, payload) VALUES ('"+id+"', 'orders', '{}')")
			})
		}
		stop()
		eventually(t, "no session listens any more", func() bool { return w.listeners(t) == 0 }) // the server ends them in its own time
	})
}

// TestEarlyTransactionsWakeRelay: what was enqueued before the relay slept, in transactions
// that overlap, is found after each commit, and not only when the relay says again that it sleeps.
//
//test:sessions
func TestEarlyTransactionsWakeRelay(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		const open = 8
		var txs []pgx.Tx
		for i := range open {
			tx, err := w.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // of a test that failed
			if _, err := w.writer.Enqueue(t.Context(), tx, waybill.Message{ID: fmt.Sprintf("m%d", i), Topic: "orders"}); err != nil {
				t.Fatal(err)
			}
			txs = append(txs, tx)
		}
		pub := &recorder{}
		w.startRelay(t, pub, sleepyConfig())
		w.asleep(t)
		woken := 0
		for i := open - 1; i >= 0; i-- { // positions become visible from the last to the first
			if w.wakes(t, pub, fmt.Sprintf("m%d", i), func(string) {
				if err := txs[i].Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
			}) {
				woken++
			}
		}
		if woken <= open/2 {
			t.Errorf("%d of %d messages were found by a wake-up, want most of them", woken, open)
		}
	})
}

// TestRushIsNotNotified: with many commits a second, writers are not made to notify. When it
// is calm they are again.
func TestRushIsNotNotified(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	pub := &recorder{}
	w.startRelay(t, pub, sleepyConfig())
	second := &world{dsn: w.dsn, schema: w.schema}
	second.open(t)
	t.Cleanup(second.pool.Close)
	second.startRelay(t, pub, sleepyConfig()) // has half of the lanes
	w.asleep(t)
	heard := w.listen(t)

	// The commits of a round come from the server itself, so that they are many in a second; on
	// a machine that is busy with something else a round may be too slow to be a rush.
	const commits, rounds = 500, 20
	round, before := 0, 0
	eventually(t, "a rush of commits with few notifications", func() bool {
		if round++; round > rounds {
			return false
		}
		w.exec(t, fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..%d LOOP
			INSERT INTO %s (topic, key, payload) VALUES ('orders', 'one key', '{}'); COMMIT; END LOOP; END $$`, commits, w.table("outbox")))
		n := heard() - before
		before += n
		return n < commits/4
	})
	eventually(t, "all are published", func() bool { return len(pub.ids()) == round*commits })
	w.asleep(t)
	w.wantWoken(t, pub, "late", w.insert(t))
}

// listen starts to count the notifications of writers and returns a function that tells how
// many came so far.
func (w *world) listen(t *testing.T) (heard func() int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	channel := w.channel(t)
	if _, err := conn.Exec(t.Context(), "LISTEN "+channel); err != nil {
		t.Fatal(err)
	}
	return func() int {
		t.Helper()
		if _, err := conn.Exec(t.Context(), "SELECT pg_notify('"+channel+"', 'end')"); err != nil {
			t.Fatal(err)
		}
		for n := 0; ; {
			note, err := conn.WaitForNotification(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			switch note.Payload {
			case "end":
				return n
			case "":
				n++
			}
		}
	}
}

// TestNobodySleepsNobodyNotifies: without a relay the trigger does nothing.
//
//test:sessions
func TestNobodySleepsNobodyNotifies(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	heard := w.listen(t)
	w.enqueue(t, numbered("m", "orders", 10)...)
	if n := heard(); n != 0 {
		t.Errorf("%d notifications though no relay has ever run, want none", n)
	}
}

// TestLostListenConnection: a relay whose connection is killed gets another one.
//
//test:sessions
func TestLostListenConnection(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	pub := &recorder{}
	w.startRelay(t, pub, sleepyConfig())
	for i := range 3 {
		w.asleep(t)
		eventually(t, "one session listens", func() bool { return w.listeners(t) == 1 })
		w.wantWoken(t, pub, fmt.Sprint("m", i), w.insert(t))
		w.exec(t, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE query = 'LISTEN ' || $1", w.channel(t))
	}
}

// TestListenRefused: without a connection to listen on, messages are found at the poll, and
// the relay's own commits at once; when it can listen again it is woken again.
//
//test:sessions
func TestListenRefused(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	u, err := url.Parse(w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faultproxy.New(t.Context(), u.Host)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = proxy.Addr()
	proxy.Refuse(true)
	store, err := pgstore.New(w.pool, pgstore.Config{Schema: w.schema, ListenURL: u.String()})
	if err != nil {
		t.Fatal(err)
	}
	failures := &loopErrors{Observer: quiet}
	pub := &recorder{}
	r, err := relay.New(store, pub, quick(relay.Config{Observer: failures, PollInterval: 200 * time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), r.Run)
	w.exec(t, "INSERT INTO "+w.table("outbox")+" (id, topic, payload) VALUES ('polled', 'orders', '{}')")
	eventually(t, "it is found at the poll", func() bool { return pub.count("polled") == 1 })
	eventually(t, "the failure is reported", func() bool { return failures.n.Load() == 1 })

	proxy.Refuse(false)
	w.asleep(t)
	proxy.Cut()
	w.asleep(t)
	if n := failures.n.Load(); n > 3 {
		t.Errorf("%d failures were reported, want one for each time that the connection was lost", n)
	}
}

// opaque is a driver whose connections say nothing about their server, as lib/pq's or a wrapper's.
type opaque struct{ driver.Connector }

func (o opaque) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := o.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return struct {
		driver.Conn
		driver.ConnBeginTx
		driver.ExecerContext
		driver.QueryerContext
		driver.NamedValueChecker
	}{conn, conn.(driver.ConnBeginTx), conn.(driver.ExecerContext), conn.(driver.QueryerContext), conn.(driver.NamedValueChecker)}, nil
}

// TestListenURL: through database/sql relays listen where db is connected, if the driver is pgx's.
// With others they do if ListenURL is given, and report once if it is not.
//
//test:sessions
func TestListenURL(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	conn, err := pgx.ParseConfig(w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	start := func(via driver.Connector, cfg pgstore.Config) (*outbox.Writer[*sql.Tx], *recorder, *loopErrors, func()) {
		db := sql.OpenDB(via)
		t.Cleanup(func() { db.Close() })
		cfg.Schema = w.schema
		store, err := pgstore.NewSQL(db, cfg)
		if err != nil {
			t.Fatal(err)
		}
		writer, err := outbox.NewWriter(store, outbox.Config{Source: "shop", Observer: quiet})
		if err != nil {
			t.Fatal(err)
		}
		pub, failures := &recorder{}, &loopErrors{Observer: quiet}
		r, err := relay.New(store, pub, quick(relay.Config{Observer: failures, PollInterval: time.Minute}))
		if err != nil {
			t.Fatal(err)
		}
		return writer, pub, failures, run(t, t.Context(), r.Run)
	}
	pgxDriver := stdlib.GetConnector(*conn)

	writer, pub, failures, stop := start(opaque{pgxDriver}, pgstore.Config{})
	eventually(t, "that nothing can be heard is reported", func() bool { return failures.n.Load() == 1 })
	committed := 0
	eventually(t, "each of three commits of its own store wakes the relay, which would take two minutes by polls", func() bool {
		if len(pub.ids()) < committed {
			return false
		}
		committed++
		_, err := writer.InTx(t.Context(), func(_ context.Context, _ *sql.Tx, rec *outbox.Recorder) error {
			rec.Record(waybill.Message{Topic: "orders"})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return committed > 3
	})
	if w.announced(t) || w.listeners(t) > 0 {
		t.Error("writers are asked to notify, but nobody can hear them")
	}
	stop()
	if n := failures.n.Load(); n != 1 {
		t.Errorf("%d failures were reported, want 1", n)
	}

	hears := func(id string, via driver.Connector, cfg pgstore.Config) {
		t.Helper()
		_, pub, failures, stop := start(via, cfg)
		defer stop()
		w.asleep(t)
		w.wantWoken(t, pub, id, w.insert(t))
		if n := failures.n.Load(); n > 0 {
			t.Errorf("%s: %d failures were reported", id, n)
		}
	}
	hears("settings of the driver", pgxDriver, pgstore.Config{})
	hears("settings of ListenURL", opaque{pgxDriver}, pgstore.Config{ListenURL: w.dsn})
}

func TestListenURLIsChecked(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	_, err := pgstore.New(w.pool, pgstore.Config{ListenURL: "postgres://user:secret@host:no-port/db"})
	var invalid *waybill.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "ListenURL" || strings.Contains(err.Error(), "secret") {
		t.Errorf("New() = %v, want an InvalidError that names ListenURL and no password", err)
	}
}

// loopErrors counts the failures of background loops.
type loopErrors struct {
	observe.Observer
	n atomic.Int64
}

func (o *loopErrors) Observe(ctx context.Context, e observe.Event) {
	if e.Op == observe.OpLoop && e.Err != nil {
		o.n.Add(1)
	}
	o.Observer.Observe(ctx, e)
}
