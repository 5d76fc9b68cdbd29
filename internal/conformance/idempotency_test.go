package conformance

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill/idempotency"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/store/redisstore"
)

var (
	_ idempotency.Responses = (*memstore.Store)(nil)
	_ idempotency.Responses = (*redisstore.Store)(nil)
)

// responseStore is what package idempotency needs, with a clock that can be moved.
type responseStore struct {
	inbox.LeaseStore
	idempotency.Responses
	advance func(t *testing.T, d time.Duration)
}

// eachResponseStore runs a test with every store that keeps responses.
func eachResponseStore(t *testing.T, test func(t *testing.T, s responseStore)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		s := &memStore{}
		s.Store = memstore.New(memstore.WithClock(s.now))
		test(t, responseStore{s, s, func(_ *testing.T, d time.Duration) { s.move(d) }})
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		h := redisLeaseHarness(newRedis(t))
		s := h.Open(t)
		test(t, responseStore{s, s.(*redisLeases), func(t *testing.T, d time.Duration) { h.Advance(t, s, d) }})
	})
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
		must(t, s.SaveResponse(ctx, "k", []byte("anew"), time.Hour))
		find("k", []byte("anew"))
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
		waitFor(t, "all but one are told that it is under way", func() bool { return busy.Load() == clients-1 })
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
		key := inbox.LeaseKey{Bus: "http", Group: "POST", Source: "/payments", Message: "k"}.String()
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
