package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/discovery"
	"github.com/waybill-go/waybill/inboxhttp"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/ops"
)

func TestInbox_AnnounceRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no URL", []string{"--broker", "mem:"}, "--announce needs --advertise-url"},
		{"no broker", []string{"--advertise-url", "https://inbox.example.com"}, "broker"},
		{"a password in the URL", []string{"--broker", "mem:", "--advertise-url", "https://u:S3CR3T@inbox.example.com"}, "Endpoint.URL: holds a user"},
		{"a group without end", []string{"--broker", "mem:", "--advertise-url", "https://inbox.example.com", "--group", strings.Repeat("g", 91)}, "AnnouncerConfig.Group"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := runProgram(t.Context(), nil, append([]string{"inbox", "--store", "memory:", "--listen", "127.0.0.1:0", "--announce"}, tc.args...)...)
			if r.code != exitUsage || !strings.Contains(r.stderr, tc.want) || strings.Contains(r.stderr, "S3CR3T") {
				t.Errorf("exit code %d, %s, want %d and %q", r.code, r.stderr, exitUsage, tc.want)
			}
		})
	}
}

// lookFor lets the doctor look for an inbox service and returns what it finds of it.
func lookFor(t *testing.T, args ...string) finding {
	t.Helper()
	all := append([]string{"doctor", "--json", "--store", "sqlite:" + filepath.Join(t.TempDir(), "none.db")}, args...)
	r := runProgram(t.Context(), nil, all...)
	var findings []finding
	if err := json.Unmarshal([]byte(r.stdout), &findings); err != nil {
		t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	for _, f := range findings {
		if f.Subject == inboxSubject {
			return f
		}
	}
	return finding{}
}

// TestInbox_Announced: the doctor finds what the inbox command announces, and says why it is
// that.
func TestInbox_Announced(t *testing.T) {
	t.Parallel()
	ready := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health/ready" {
			http.NotFound(w, r)
		}
	}))
	defer ready.Close()
	broker := brokerURL("RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672/")
	group := "cli-" + waybill.NewID()[24:]
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	go func() {
		ended <- runProgram(ctx, nil, "inbox", "--store", "memory:", "--listen", "127.0.0.1:0", "--broker", broker,
			"--announce", "--advertise-url", ready.URL, "--group", group, "--priority", "7")
	}()
	question := []string{"--broker", broker, "--inbox-discovery", "--inbox-group", group, "--inbox-hosts", "127.0.0.1"}
	var found finding
	waitFor(t, "the service is found", func() bool {
		found = lookFor(t, append(question, "--inbox-allow-http")...)
		return found.Severity == ops.OK
	})
	if !matches(found.Found, "discovered: "+ready.URL+", … of 1 is ready") {
		t.Errorf("found %+v", found)
	}
	if f := lookFor(t, question...); f.Severity != ops.Problem || !matches(f.Found, "none-found for bus rabbit, group "+group+"; 1 announcements refused") {
		t.Errorf("without TLS being allowed: found %+v", f)
	}
	cancel()
	if r := <-ended; r.code != exitOK {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
	if f := lookFor(t, question...); f.Severity != ops.Problem || !matches(f.Found, "none-found …; 0 announcements refused") {
		t.Errorf("after its end: found %+v", f)
	}
}

func TestDoctor_InboxURL(t *testing.T) {
	t.Parallel()
	var code atomic.Int32
	code.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(code.Load())) }))
	defer server.Close()
	if f := lookFor(t, "--inbox-url", server.URL, "--inbox-discovery"); f.Severity != ops.OK || f.Found != "explicit-endpoint: "+server.URL+" is ready" {
		t.Errorf("found %+v", f)
	}
	code.Store(http.StatusServiceUnavailable)
	if f := lookFor(t, "--inbox-url", server.URL); f.Severity != ops.Problem || !matches(f.Found, "… is not ready: it answers 503 Service Unavailable") {
		t.Errorf("found %+v", f)
	}
	if f := lookFor(t); f.Subject != "" {
		t.Errorf("nobody asked, and found %+v", f)
	}
	r := runProgram(t.Context(), nil, "doctor", "--store", "sqlite:x", "--inbox-url", "https://u:S3CR3T@a")
	if r.code != exitUsage || strings.Contains(r.stderr+r.stdout, "S3CR3T") {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
}

// TestOptions_InboxAndDiscovery: the options of the inbox service and of discovery have the defaults of
// the library, and an effect.
func TestOptions_InboxAndDiscovery(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]time.Duration{"": time.Minute, "90s": 90 * time.Second} {
		_, url := startInbox(t, "--store", "memory:", "--inbox-lease="+cmp.Or(env, "60s"))
		c, err := inboxhttp.NewClient(inboxhttp.ClientConfig{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.Post(url+"v1/inbox/try-begin", "application/json", strings.NewReader(`{"key":"k"}`))
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		rec, err := c.ReadLease(t.Context(), "k")
		if got := rec.LeaseUntil.Sub(rec.FirstSeen).Round(time.Second); err != nil || got != want {
			t.Errorf("with --inbox-lease %q a lease lasts %v, %v, want %v", env, got, err, want)
		}
	}
	for _, args := range [][]string{
		{"--discovery-timeout", "1s", "--discovery-selection-wait", "2s"},
		{"--discovery-group", strings.Repeat("g", 91)},
		{"--discovery-bus", strings.Repeat("b", 91)},
	} {
		r := runProgram(t.Context(), nil, append([]string{"doctor", "--store", "sqlite:x", "--broker", "mem:", "--inbox-discovery", "--inbox-hosts", "a"}, args...)...)
		if r.code != exitUsage {
			t.Errorf("doctor %v: exit code %d, %s%s, want %d", args, r.code, r.stdout, r.stderr, exitUsage)
		}
	}
	defaults := map[string]string{"discovery.bus": discovery.DefaultBus, "discovery.group": discovery.DefaultGroup}
	for _, o := range config.Options() {
		if want, ok := defaults[o.Key]; ok && o.Default != want {
			t.Errorf("%s is %q by default, want %q, as in package discovery", o.Key, o.Default, want)
		}
	}
}
