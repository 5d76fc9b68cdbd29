package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/dashboard"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/sqlitestore"
	"github.com/waybill-go/waybill/traffic"
)

// TestTraffic_FromEnqueueToChart: what a service has published and handled is what the history and the dashboard
// show.
func TestTraffic_FromEnqueueToChart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, broker := memstore.New(), membroker.New()
		defer broker.Close()
		svc, err := service.New(store, broker, service.Config{Source: "shop", Observer: observe.LogTo(slog.New(slog.DiscardHandler))})
		must(t, err)
		handle := func(_ context.Context, _ *memstore.Tx, m *waybill.Message) error {
			if m.Key == "bad" {
				return waybill.PermanentError(waybill.ReasonRejected, fmt.Errorf("no such customer"))
			}
			return nil
		}
		must(t, svc.Consume(consumer.Subscription{Group: "billing", Topics: []string{"orders"}}, handle, consumer.Config{}))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- svc.Run(ctx) }()
		const messages, bad = 600, 12
		_, err = svc.Outbox().InTx(t.Context(), func(_ context.Context, _ *memstore.Tx, rec *outbox.Recorder) error {
			for i := range messages {
				m := waybill.Message{Topic: "orders"}
				if i < bad {
					m.Key = "bad"
				}
				rec.Record(m)
			}
			return nil
		})
		must(t, err)
		time.Sleep(3 * time.Minute) // within the bubble: the minute is over, and recorded
		synctest.Wait()

		h, err := traffic.Load(t.Context(), store, time.Hour, time.Now())
		must(t, err)
		for _, tc := range []struct {
			of   traffic.Selection
			want string
		}{
			{traffic.Selection{Topic: "orders"}, "600 enqueued, 600 published, 588 handled, 12 failed, 12 dead, 600 and 588 lags"},
			{traffic.Selection{Consumer: "billing"}, "0 enqueued, 0 published, 588 handled, 12 failed, 12 dead, 0 and 588 lags"},
			{traffic.Selection{Relay: h.Names().Relays[0]}, "0 enqueued, 600 published, 0 handled, 0 failed, 0 dead, 600 and 0 lags"},
		} {
			c := h.Total(tc.of)
			got := fmt.Sprintf("%d enqueued, %d published, %d handled, %d failed, %d dead, %d and %d lags",
				c.Enqueued, c.Published, c.Handled, c.Failed, c.Dead, c.PublishLag.Total(), c.HandleLag.Total())
			if got != tc.want {
				t.Errorf("%+v: %s, want %s", tc.of, got, tc.want)
			}
		}

		d, err := dashboard.New(store, dashboard.Config{AllowLoopback: true, Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		r := httptest.NewRequest("GET", "http://127.0.0.1/traffic?topic=orders", nil)
		r.RemoteAddr = "127.0.0.1:1234"
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		for _, want := range []string{"published: 0 at the end, 10 at most", "handled: 0 at the end, 9.8 at most", "dead-lettered: 0 at the end, 0.2 at most"} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("the page is without %q", want)
			}
		}
		stop()
		must(t, <-done)
	})
}

// TestTraffic_SizeOfAYear: a year of 50 topics, 20 consumers and 10 relays takes less than 200 MB, with the minutes
// and hours that have not been merged.
func TestTraffic_SizeOfAYear(t *testing.T) {
	t.Parallel()
	const most = 200_000_000
	check := func(t *testing.T, s traffic.Store, size func() (bytes int64, err error)) {
		t.Helper()
		n := 0
		busyYear(t, func(r traffic.Row) {
			n++
			must(t, s.AddTraffic(t.Context(), r))
		})
		bytes, err := size()
		must(t, err)
		t.Logf("%d rows, %d bytes", n, bytes)
		if bytes == 0 || bytes > most {
			t.Errorf("a year takes %d bytes, want at most %d", bytes, most)
		}
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		p := newPostgres(t, nil, pgstore.Config{})
		cfg := p.newSchema(t)
		t.Cleanup(func() { p.drop(t, cfg) })
		s, err := pgstore.New(p.pool, cfg)
		must(t, err)
		check(t, s, func() (bytes int64, err error) {
			err = p.pool.QueryRow(t.Context(), "SELECT pg_total_relation_size($1::regclass)", tableOf(cfg, "traffic")).Scan(&bytes)
			return bytes, err
		})
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		s := newMySQLStore(t, nil)
		check(t, s, func() (bytes int64, err error) {
			if err = s.exec("ANALYZE TABLE " + s.table("traffic")); err != nil {
				return 0, err
			}
			err = s.db.QueryRow("SELECT data_length + index_length FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'waybill_traffic'").Scan(&bytes)
			return bytes, err
		})
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		s := openSQLite(t, filepath.Join(t.TempDir(), "w.db"), "_pragma=journal_mode(wal)", sqlitestore.Config{})
		_, err := s.Migrate(t.Context(), sqlitestore.MigrateOptions{})
		must(t, err)
		check(t, s, func() (bytes int64, err error) {
			err = s.db.QueryRow("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()").Scan(&bytes)
			return bytes, err
		})
	})
}

// busyYear adds rows as they are after a year, the latest minutes by each of 30 processes.
func busyYear(t *testing.T, add func(traffic.Row)) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	end := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	fill := func(step, long time.Duration, writers, consumers, relays int) {
		var kinds [][]byte // rows are stored by themselves, so that a few different ones are enough
		for range 20 {
			counted := traffic.Interval{Topics: busy(random, "topic", 50), Consumers: busy(random, "consumer", consumers), Relays: busy(random, "relay", relays)}
			data, err := counted.Encode()
			must(t, err)
			kinds = append(kinds, data)
		}
		for at := end.Add(-long); at.Before(end); at = at.Add(step) {
			for range writers {
				add(traffic.Row{Step: step, At: at, Writer: waybill.NewID(), Data: kinds[random.IntN(len(kinds))]})
			}
		}
	}
	fill(traffic.Hour, traffic.Retention, 1, 20, 10)
	fill(traffic.TenMinutes, 49*time.Hour, 1, 20, 10)
	fill(traffic.Minute, 3*time.Hour, 30, 1, 1)
}

// busy returns figures as different from each other as those of busy names are.
func busy(random *rand.Rand, kind string, names int) map[string]traffic.Counts {
	all := make(map[string]traffic.Counts)
	for i := range names {
		n := 1000 + random.Int64N(200_000)
		lag := func() traffic.Histogram {
			h := make(traffic.Histogram, 12)
			for b := range h {
				h[b] = random.Int64N(n >> (b / 2))
			}
			return h
		}
		all[fmt.Sprintf("%s.with-a-usual-name.%d", kind, i)] = traffic.Counts{
			Enqueued: n, Published: n - random.Int64N(100), Handled: n - random.Int64N(100), Failed: random.Int64N(100), Retried: random.Int64N(100), Dead: random.Int64N(3),
			PublishLag: lag(), HandleLag: lag(), Backlog: random.Int64N(n), Oldest: time.Duration(random.Int64N(1e10)),
		}
	}
	return all
}
