package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/idempotency"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/store/mysqlstore"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/sqlitestore"
	"github.com/waybill-go/waybill/store/storetest"
)

// responseStore is what package idempotency needs, with a clock that can be moved.
type responseStore struct {
	lease.Store
	idempotency.Responses
	advance func(t *testing.T, d time.Duration)
}

// eachResponseStore runs a test with every store that keeps responses.
func eachResponseStore(t *testing.T, test func(t *testing.T, s responseStore)) {
	serializable := map[string]string{"default_transaction_isolation": "serializable"}
	for name, h := range map[string]storetest.LeaseHarness{
		"memory":                   memoryLeases(),
		"Redis":                    redisLeaseHarness(newRedis(t)),
		"PostgreSQL":               leasesOf(newPostgres(t, nil, pgstore.Config{}).pgxHarness()),
		"PostgreSQL, sql":          leasesOf(newPostgres(t, nil, pgstore.Config{TablePrefix: `My "pre'fix %`}).sqlHarness()),
		"PostgreSQL, serializable": leasesOf(newPostgres(t, serializable, pgstore.Config{}).pgxHarness()),
		"SQLite":                   leasesOf(sqliteHarness("_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_txlock=immediate", sqlitestore.Config{})),
		"MySQL":                    leasesOf(newMySQL(t, nil, mysqlstore.Config{}).harness()),
		"MySQL, hostile":           leasesOf(newMySQL(t, hostileMySQL(), mysqlstore.Config{TablePrefix: oddMySQLPrefix}).harness()),
		"MongoDB":                  mongoLeaseHarness(mongoClient(t, mongoURL(t))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := h.Open(t)
			responses, ok := s.(idempotency.Responses)
			if !ok {
				t.Fatalf("%T keeps no responses", s)
			}
			test(t, responseStore{s, responses, func(t *testing.T, d time.Duration) { h.Advance(t, s, d) }})
		})
	}
}

func TestResponses(t *testing.T) {
	t.Parallel()
	eachResponseStore(t, func(t *testing.T, s responseStore) {
		ctx := context.Background()
		find := func(key string, want []byte) {
			t.Helper()
			got, found, err := s.FindResponse(ctx, key)
			if err != nil || found != (want != nil) || !bytes.Equal(got, want) {
				t.Errorf("FindResponse(%q) = %q, %v, %v, want %q", key, got, found, err, want)
			}
		}
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		find("k", nil)
		must(t, s.SaveResponse(ctx, "k", every, time.Hour))
		must(t, s.SaveResponse(ctx, "k", []byte("the first one stays"), 3*time.Hour))
		must(t, s.SaveResponse(ctx, "}{", []byte{}, 2*time.Hour))
		begin(t, s, "k", time.Minute) // a lease is another matter
		s.advance(t, time.Hour-time.Minute)
		find("k", every)
		find("}{", []byte{})
		s.advance(t, time.Minute)
		find("k", nil)
		must(t, s.SaveResponse(ctx, "k", []byte("again"), time.Hour))
		find("k", []byte("again"))
	})
}

// TestResponses_AtOnce: of several that store a response under a key at once, in the place of none or
// of one that has expired, one does, and everybody finds that one.
func TestResponses_AtOnce(t *testing.T) {
	t.Parallel()
	eachResponseStore(t, func(t *testing.T, s responseStore) {
		ctx := context.Background()
		for range 2 {
			const writers = 16
			var found [writers][]byte
			var all sync.WaitGroup
			for i := range writers {
				all.Go(func() {
					err := repeatUnlessDone(func() error { return s.SaveResponse(ctx, "k", []byte{byte(i)}, time.Hour) })
					if err == nil {
						found[i], _, err = s.FindResponse(ctx, "k")
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			for i := range found {
				if len(found[i]) != 1 || !bytes.Equal(found[i], found[0]) {
					t.Fatalf("found %v, want one response", found)
				}
			}
			s.advance(t, time.Hour)
		}
	})
}

// repeatUnlessDone repeats what clashes with others, as SQLite tells of writers that wait for too long.
func repeatUnlessDone(fn func() error) (err error) {
	for range 100 {
		if err = fn(); !waybill.IsConflict(err) {
			break
		}
	}
	return err
}

// TestResponses_Wrong: what cannot be stored is refused before the store is asked, and says why.
func TestResponses_Wrong(t *testing.T) {
	t.Parallel()
	eachResponseStore(t, func(t *testing.T, s responseStore) {
		for field, save := range map[string]func(ctx context.Context) error{
			"ttl":                func(ctx context.Context) error { return s.SaveResponse(ctx, "k", nil, 0) },
			"lease.Request.Key":  func(ctx context.Context) error { return s.SaveResponse(ctx, "a\x00b", nil, time.Hour) },
			"lease.Request.Key ": func(ctx context.Context) error { return s.SaveResponse(ctx, "", nil, time.Hour) },
		} {
			var invalid *waybill.InvalidError
			if err := save(t.Context()); !errors.As(err, &invalid) || invalid.Field != strings.TrimSpace(field) {
				t.Errorf("SaveResponse() = %v, want it refused for its %s", err, field)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.SaveResponse(ended, "k", nil, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("SaveResponse() with a context that has ended = %v", err)
		}
	})
}

// TestResponses_Janitor: what has expired is removed, and nothing else.
func TestResponses_Janitor(t *testing.T) {
	t.Parallel()
	eachResponseStore(t, func(t *testing.T, s responseStore) {
		store, ok := s.Store.(janitor.Store)
		if !ok {
			return // the server removes what has expired
		}
		ctx := t.Context()
		for i := range 5 {
			must(t, s.SaveResponse(ctx, fmt.Sprint("old", i), []byte("old"), time.Hour))
		}
		must(t, s.SaveResponse(ctx, "old4 again", []byte("old"), time.Hour))
		must(t, s.SaveResponse(ctx, "young", []byte("young"), 2*time.Hour))
		s.advance(t, time.Hour+time.Minute)
		must(t, s.SaveResponse(ctx, "old4 again", []byte("again"), time.Hour))
		rows := janitor.Rows{Kind: janitor.Responses, OlderThan: time.Minute}
		other := rows
		other.Tenant = "north"
		for _, tc := range []struct {
			rows janitor.Rows
			want int64
		}{{other, 0}, {rows, 5}, {rows, 0}} {
			done, err := janitor.Purge(ctx, store, tc.rows, 2)
			if err != nil || done.Deleted != tc.want || done.Candidates != tc.want {
				t.Errorf("Purge(%+v) = %+v, %v, want %d removed", tc.rows, done, err, tc.want)
			}
		}
		for key, want := range map[string]string{"young": "young", "old4 again": "again"} {
			if got, found, err := s.FindResponse(ctx, key); !found || string(got) != want || err != nil {
				t.Errorf("FindResponse(%q) = %q, %v, %v, want %q", key, got, found, err, want)
			}
		}
	})
}

// payments is a server with a guarded handler, which waits for the gate.
type payments struct {
	*testing.T
	url  string
	runs atomic.Int32
	gate chan struct{}
}

func newPayments(t *testing.T, s responseStore) *payments {
	t.Helper()
	p := &payments{T: t, gate: make(chan struct{})}
	guard, err := idempotency.New(s, s, idempotency.Config{Shared: true})
	must(t, err)
	server := httptest.NewServer(guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.runs.Add(1)
		<-p.gate
		w.Header().Set("Location", "/payments/1")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
	})))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// post returns the status and the body of what is answered, and whether it was a replay.
func (p *payments) post(key, body string) (status int, answer string, replayed bool) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, p.url+"/payments", strings.NewReader(body))
	if err != nil {
		p.Error(err)
		return 0, "", false
	}
	req.Header.Set("Idempotency-Key", key)
	res, err := httpClient.Do(req)
	if err != nil {
		p.Error(err)
		return 0, "", false
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		p.Error(err)
	}
	return res.StatusCode, string(data), res.Header.Get("Idempotency-Replayed") == "true"
}

func TestIdempotency_ManyAtOnce(t *testing.T) {
	t.Parallel()
	eachResponseStore(t, func(t *testing.T, s responseStore) {
		p := newPayments(t, s)
		const clients = 50
		var created, busy atomic.Int32
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				switch status, _, _ := p.post("k", "10 EUR"); status {
				case http.StatusCreated:
					created.Add(1)
				case http.StatusConflict:
					busy.Add(1)
				}
			})
		}
		waitFor(t, "all but one are answered that it is in progress", func() bool { return busy.Load() == clients-1 })
		if status, _, _ := p.post("k", "20 EUR"); status != http.StatusUnprocessableEntity {
			t.Errorf("another payload, meanwhile = %d, want 422", status)
		}
		close(p.gate)
		all.Wait()
		if created.Load() != 1 || p.runs.Load() != 1 {
			t.Errorf("%d clients were answered 201 and the handler ran %d times, want 1 and 1", created.Load(), p.runs.Load())
		}
		if status, body, replayed := p.post("k", "10 EUR"); status != http.StatusCreated || body != "10 EUR" || !replayed {
			t.Errorf("repetition = %d %q, replayed %v, want the stored response", status, body, replayed)
		}
		if status, _, _ := p.post("k", "20 EUR"); status != http.StatusUnprocessableEntity {
			t.Errorf("another payload = %d, want 422", status)
		}
		s.advance(t, 24*time.Hour)
		if status, _, replayed := p.post("k", "20 EUR"); status != http.StatusCreated || replayed || p.runs.Load() != 2 {
			t.Errorf("a day later = %d, replayed %v after %d runs, want a new one", status, replayed, p.runs.Load())
		}
	})
}

// TestIdempotency_HolderDied: a process that dies leaves its lease. It may have had its effect, so
// this is where the handler runs a second time.
func TestIdempotency_HolderDied(t *testing.T) {
	t.Parallel()
	eachResponseStore(t, func(t *testing.T, s responseStore) {
		p := newPayments(t, s)
		close(p.gate)
		key := lease.Key{Bus: "http", Group: "POST", Source: "/payments", Message: "k"}.String()
		begin(t, s, key, time.Minute)
		if status, _, _ := p.post("k", ""); status != http.StatusConflict || p.runs.Load() != 0 {
			t.Errorf("while the dead one's lease lasts: %d, want 409", status)
		}
		s.advance(t, time.Minute)
		if status, _, _ := p.post("k", ""); status != http.StatusCreated || p.runs.Load() != 1 {
			t.Errorf("after that: %d, want 201", status)
		}
	})
}
