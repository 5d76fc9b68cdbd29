package idempotency

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
)

func TestInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Config{LeaseTTL: 30 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(5 * time.Minute) // ten leases
			if err := context.Cause(r.Context()); err != nil {
				t.Errorf("the handler's context has ended although its lease was renewed: %v", err)
			}
			created(w, r)
		})
		first := make(chan *httptest.ResponseRecorder, 1)
		go func() { first <- a.post("k", "") }()
		for range 9 {
			time.Sleep(30 * time.Second)
			w := a.post("k", "")
			a.want(w, 409, "IDEMPOTENCY_IN_PROGRESS", 1)
			if w.Header().Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
		a.want(<-first, 201, "paid", 1)
		a.want(a.post("k", ""), 201, "paid", 1)
	})
}

// TestOtherPayloadInFlight: another payload is refused at once, and not asked to come again, unless
// it cannot be distinguished from that of the request in progress.
func TestOtherPayloadInFlight(t *testing.T) {
	t.Parallel()
	for _, status := range []int{422, 409} {
		synctest.Test(t, func(t *testing.T) {
			a := newAPI(t, Config{ConflictStatus: status}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(5 * time.Minute)
				created(w, r)
			})
			first := make(chan *httptest.ResponseRecorder, 1)
			go func() { first <- a.post("k", "one") }()
			time.Sleep(time.Minute) // the lease was renewed
			a.want(a.post("k", "another"), status, "IDEMPOTENCY_CONFLICT", 1)
			a.want(a.post("k", "one"), 409, "IDEMPOTENCY_IN_PROGRESS", 1)
			a.store.change(func() { a.store.readErr = errors.New("store is away") })
			a.want(a.post("k", "another"), 409, "IDEMPOTENCY_IN_PROGRESS", 1)
			a.want(<-first, 201, "paid", 1)
			a.want(a.post("k", "another"), status, "IDEMPOTENCY_CONFLICT", 1)
		})
	}
}

// TestProcessDied leaves a lease and nothing else.
func TestProcessDied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Config{LeaseTTL: 30 * time.Second}, created)
		a.store.leases[keyOfK] = fakeLease{"dead", "http", time.Now().Add(30 * time.Second)}
		a.want(a.post("k", ""), 409, "IDEMPOTENCY_IN_PROGRESS", 0)
		time.Sleep(30 * time.Second)
		a.want(a.post("k", ""), 201, "paid", 1)
	})
}

func TestHandlerEndsBeforeItsLease(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		fault func(*fakeStore) // in the first second
		ends  time.Duration    // when the handler's context ends
	}{
		{"store away", func(s *fakeStore) { s.renewErr = errAway }, 25 * time.Second},
		{"store silent", func(s *fakeStore) { s.silent = make(chan struct{}) }, 25 * time.Second},
		{"lease lost", func(s *fakeStore) { s.leases[keyOfK] = fakeLease{"another", "http", time.Now().Add(time.Hour)} }, 10 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var ended time.Duration
				a := newAPI(t, Config{LeaseTTL: 30 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
					start := time.Now()
					select {
					case <-r.Context().Done():
					case <-time.After(time.Hour):
					}
					ended = time.Since(start)
					w.WriteHeader(http.StatusInternalServerError)
				})
				go func() {
					time.Sleep(time.Second)
					a.store.change(func() { tc.fault(a.store) })
				}()
				a.want(a.post("k", ""), 500, "", 1)
				if a.store.silent != nil {
					close(a.store.silent)
				}
				if ended != tc.ends {
					t.Errorf("the handler's context ended after %v, want %v, before the lease of 30s", ended, tc.ends)
				}
			})
		})
	}
}

// TestClientGone: a client that hangs up ends the handler's context, but neither the lease of a
// handler that goes on, nor what becomes of its answer.
func TestClientGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a *api
		a = newAPI(t, Config{LeaseTTL: 30 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
			if a.runs.Load() == 1 {
				<-r.Context().Done()
				time.Sleep(2 * time.Minute)
			}
			created(w, r)
		})
		r := httptest.NewRequest(http.MethodPost, "/payments", nil)
		r.Header.Set("Idempotency-Key", "k")
		ctx, hangUp := context.WithCancel(t.Context())
		go a.send(r.WithContext(ctx))
		time.Sleep(time.Second)
		hangUp()
		time.Sleep(time.Minute)
		a.want(a.post("k", ""), 409, "IDEMPOTENCY_IN_PROGRESS", 1)
		time.Sleep(2 * time.Minute)
		a.want(a.post("k", ""), 201, "paid", 1)
	})
}

// TestClientGoneBeforeTheLease: a client that hangs up while its key is being leased does not leave
// the key taken.
func TestClientGoneBeforeTheLease(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{}, created)
	r := httptest.NewRequest(http.MethodPost, "/payments", nil)
	r.Header.Set("Idempotency-Key", "k")
	ctx, hangUp := context.WithCancel(t.Context())
	a.store.beforeAck = hangUp
	a.want(a.send(r.WithContext(ctx)), 503, "IDEMPOTENCY_UNAVAILABLE", 0)
	a.store.beforeAck = nil
	a.want(a.post("k", ""), 201, "paid", 1)
}

func TestHandlerFindsItsLease(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		l, ok := lease.FromContext(r.Context())
		if !ok || l.Key != keyOfK || l.Token != 1 {
			t.Errorf("LeaseFrom() = %+v, %v", l, ok)
		}
		if !errors.Is(http.NewResponseController(w).Flush(), http.ErrNotSupported) {
			t.Error("the handler can flush what is held back")
		}
	})
	a.want(a.post("k", ""), 200, "", 1)
}
