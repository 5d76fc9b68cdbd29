package discovery

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
)

// oneService is a lease store that answers Busy, or an error.
type oneService struct {
	lease.Store
	err   error
	calls int
}

func (s *oneService) TryBegin(context.Context, lease.Request) (lease.Answer, error) {
	s.calls++
	return lease.Answer{Status: lease.Busy}, s.err
}

// TestStore_Failover: a service that does not answer is forgotten, and the next one found.
func TestStore_Failover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const a, b = "https://a.example.com", "https://b.example.com"
		there := func(name, url string) []said { return []said{{0, "own", answer(name, url, 0, "OWN")}} }
		tr := &script{said: there("a", a)}
		services := map[string]*oneService{a: {}, b: {}}
		var dialled []string
		s, err := NewStore(newFinder(t, tr, Config{Enabled: true}), func(e Endpoint) (lease.Store, error) {
			dialled = append(dialled, e.Name+" "+string(e.Auth))
			return services[e.URL], nil
		})
		if err != nil {
			t.Fatal(err)
		}
		begin := func(want error, pings int) {
			t.Helper()
			got, err := s.TryBegin(t.Context(), lease.Request{Key: "k", TTL: time.Minute})
			if !errors.Is(err, want) || err == nil && got.Status != lease.Busy {
				t.Errorf("TryBegin() = %+v, %v, want %v", got, err, want)
			}
			if n := tr.count(); n != pings {
				t.Errorf("the broker was asked %d times, want %d", n, pings)
			}
		}
		begin(nil, 1)
		begin(nil, 1)

		tooMany := waybill.RetryAfter(time.Second, errors.New("too many requests"))
		services[a].err = tooMany
		begin(tooMany, 1)
		refused := waybill.PermanentError(waybill.ReasonRejected, errors.New("no such key"))
		services[a].err = refused
		begin(refused, 1)
		services[a].err = nil
		begin(nil, 1) // none of that was the service's end

		down := waybill.UnavailableError(errors.New("connection refused"))
		services[a].err, tr.said = down, there("b", b)
		begin(down, 1)
		begin(nil, 2)
		if services[a].calls != 6 || services[b].calls != 1 || len(dialled) != 2 || dialled[1] != "b bearer" {
			t.Errorf("calls: %d and %d, dialled %q", services[a].calls, services[b].calls, dialled)
		}
	})
}

// TestStore_OwnEnd: a caller that gives up says nothing about the service.
func TestStore_OwnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := &script{said: []said{{0, "own", answer("a", "https://a.example.com", 0, "OWN")}}}
		s, err := NewStore(newFinder(t, tr, Config{Enabled: true}), func(Endpoint) (lease.Store, error) {
			return &oneService{err: waybill.UnavailableError(context.Canceled)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := s.finder.Find(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := s.TryBegin(ctx, lease.Request{Key: "k", TTL: time.Minute}); !waybill.IsUnavailable(err) {
			t.Errorf("TryBegin() = %v, want the end of the context", err)
		}
		find(t, s.finder, ReasonCached, "https://a.example.com")
	})
}

// TestStore_NoService: it fails closed, also where no service is required.
func TestStore_NoService(t *testing.T) {
	t.Parallel()
	f, err := NewFinder(nil, Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewStore(f, func(Endpoint) (lease.Store, error) { return nil, errors.New("dialled") })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.MarkProcessed(t.Context(), lease.Lease{Key: "k"}); !errors.Is(err, ErrNoInbox) || !waybill.IsUnavailable(err) {
		t.Errorf("MarkProcessed() = %v, want ErrNoInbox, unavailable", err)
	}
	_, err = NewStore(nil, nil)
	wantInvalid(t, err, "finder")
	_, err = NewStore(f, nil)
	wantInvalid(t, err, "dial")
}
