package idempotency

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
)

// mute is a store that answers one kind of call when its context ends, and the others at once.
type mute struct {
	*fakeStore
	call string
}

func (s mute) silence(ctx context.Context, call string) error {
	if s.call != call {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s mute) FindResponse(ctx context.Context, key string) ([]byte, bool, error) {
	if err := s.silence(ctx, "find"); err != nil {
		return nil, false, err
	}
	return s.fakeStore.FindResponse(ctx, key)
}

func (s mute) TryBegin(ctx context.Context, req lease.Request) (lease.Answer, error) {
	answer, err := s.fakeStore.TryBegin(ctx, req) // the answer gets lost
	return answer, errors.Join(err, s.silence(ctx, "begin"))
}

func (s mute) RenewLease(ctx context.Context, l lease.Lease, ttl time.Duration) (lease.Answer, error) {
	if err := s.silence(ctx, "renew"); err != nil {
		return lease.Answer{}, err
	}
	return s.fakeStore.RenewLease(ctx, l, ttl)
}

// TestStoreSilent: a request does not wait for ever for a store that does not answer.
func TestStoreSilent(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"find", "begin", "renew"} {
		synctest.Test(t, func(t *testing.T) {
			a, warned := newAPI(t, Config{}, nil), make(chan struct{})
			logged := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
				if strings.Contains(string(p), "a lease was not renewed") {
					close(warned)
				}
				return len(p), nil
			}), nil))
			guarded, err := New(mute{a.store, call}, mute{a.store, call}, Config{Shared: true, Logger: logged})
			if err != nil {
				t.Fatal(err)
			}
			a.Handler = guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-warned:
				case <-r.Context().Done():
					t.Error("the handler's context ended before a renewal was abandoned")
				}
				w.WriteHeader(http.StatusTeapot)
			}))
			want := http.StatusServiceUnavailable
			if call == "renew" {
				want = http.StatusTeapot
			}
			if w := a.post("k", ""); w.Code != want {
				t.Errorf("%s is silent: answered %d, want %d", call, w.Code, want)
			}
			if call == "begin" && len(a.store.leases) > 0 {
				t.Error("the key was not released although nobody has its lease")
			}
		})
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
