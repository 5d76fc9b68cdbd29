package e2e

import (
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/discovery"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inboxhttp"
	"github.com/waybill-go/waybill/store/memstore"
)

// TestDiscoveryBrokerComesBack (AS-52): a service that was cut off from its broker is found again.
func TestDiscoveryBrokerComesBack(t *testing.T) {
	onMeetings(t, func(t *testing.T, m *meeting) {
		far, proxy := m.throughProxy(t)
		a, err := discovery.NewAnnouncer(m.over(t, far.connect(t)),
			discovery.AnnouncerConfig{Endpoint: inboxService("inbox-1", 0), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		inBackground(t, a.Run)
		cfg := patient()
		cfg.Timeout = time.Second
		f := m.finder(t, cfg)
		found := findAmong(t, f, 1, 0)

		proxy.Refuse(true)
		proxy.Cut()
		f.Invalidate(found.Endpoint.URL)
		wantFound(t, f, discovery.ReasonNoneFound, "")
		proxy.Refuse(false)
		findAmong(t, f, 1, 0)
	})
}

// serveInbox runs an inbox service and announces it, until stop is called.
func (m *meeting) serveInbox(t *testing.T, store lease.Store, name string, priority int) (stop func()) {
	t.Helper()
	handler, err := inboxhttp.NewServer(store, inboxhttp.Config{Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	told := discovery.Endpoint{Name: name, URL: server.URL, Priority: priority}
	silence := m.announce(t, discovery.AnnouncerConfig{Endpoint: told})
	return func() {
		silence()
		server.Close()
	}
}

// TestDiscoveryServiceGone (AS-55): a lease that one service has given is marked at the next, when the
// first has gone; with none at all every call fails.
func TestDiscoveryServiceGone(t *testing.T) {
	onMeetings(t, func(t *testing.T, m *meeting) {
		shared := memstore.New()
		stopFirst := m.serveInbox(t, shared, "first", 2)
		stopSecond := m.serveInbox(t, shared, "second", 1)
		cfg := patient()
		cfg.AllowedHosts, cfg.AllowHTTP, cfg.Timeout = []string{"127.0.0.1"}, true, 5*time.Second
		cfg.SelectionWindow = 500 * time.Millisecond
		f := m.finder(t, cfg)
		store, err := discovery.NewStore(f, func(e discovery.Endpoint) (lease.Store, error) {
			return inboxhttp.NewClient(inboxhttp.ClientConfig{URL: e.URL, MaxRetries: waybill.NoRetries})
		})
		if err != nil {
			t.Fatal(err)
		}
		if d := findAmong(t, f, 2, 0); d.Endpoint.Name != "first" {
			t.Fatalf("found %+v, want the first", d)
		}
		begun, err := store.TryBegin(t.Context(), lease.Request{Key: "k", TTL: time.Minute})
		if err != nil || begun.Status != lease.Acquired {
			t.Fatalf("TryBegin() = %+v, %v", begun, err)
		}
		stopFirst()
		held := lease.Lease{Key: "k", ID: begun.LeaseID, Token: begun.Token}
		if _, err := store.MarkProcessed(t.Context(), held); !waybill.IsUnavailable(err) {
			t.Errorf("MarkProcessed() at what has gone = %v, want it unavailable", err)
		}
		status, err := store.MarkProcessed(t.Context(), held)
		if err != nil || status != lease.Processed {
			t.Errorf("MarkProcessed() at the second service = %s, %v", status, err)
		}
		stopSecond()
		for range 2 {
			if _, err := store.ReadLease(t.Context(), "k"); !waybill.IsUnavailable(err) {
				t.Errorf("ReadLease() without a service = %v, want it unavailable", err)
			}
		}
	})
}
