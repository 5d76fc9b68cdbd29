package e2e

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inboxhttp"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
)

// httpClient keeps no connections: httptest closes idle ones of the default client, also those that
// another test is about to use.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// inboxProgram is a running "waybill inbox".
type inboxProgram struct {
	*programRun
	url string // without a slash behind it
}

// startInbox starts the inbox service on a free port and waits until it serves.
func startInbox(t *testing.T, dir string, args ...string) *inboxProgram {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	p := startProgram(t, dir, append([]string{"inbox", "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug"}, args...)...)
	address, _ := p.record(t, "inbox service is running")["url"].(string)
	return &inboxProgram{programRun: p, url: strings.TrimSuffix(address, "/")}
}

func (p *inboxProgram) client(t *testing.T, token string) *inboxhttp.Client {
	t.Helper()
	c, err := inboxhttp.NewClient(inboxhttp.ClientConfig{URL: p.url, Token: token, Timeout: unreached})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// mustBegin acquires a key.
func mustBegin(t *testing.T, s lease.Store, key string) lease.Lease {
	t.Helper()
	a, err := s.TryBegin(t.Context(), lease.Request{Key: key, TTL: time.Minute})
	if err != nil || a.Status != lease.Acquired {
		t.Fatalf("TryBegin() = %+v, %v, want Acquired", a, err)
	}
	return lease.Lease{Key: key, ID: a.LeaseID, Token: a.Token}
}

func wantLeaseStatus(t *testing.T, what string, got lease.Status, err error, want lease.Status) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("%s: %s, %v, want %s", what, got, err, want)
	}
}

// redisURL is that of the tests' server.
func redisURL() string { return env("REDIS_URL", "redis://127.0.0.1:6379/0") }

// onRedis are the arguments for keys of the test's own, which expire by themselves.
func onRedis() []string {
	return []string{"--store", redisURL(), "--table-prefix", "test-" + waybill.NewID() + ":", "--inbox-retention", "1h"}
}

// TestInboxServiceTokens: who has no token is refused, who has one gets what it is for, and
// neither tokens nor keys are logged.
func TestInboxServiceTokens(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	const all, some = "s3cr3t-for-everything-0123", "s3cr3t-for-billing-0123456"
	text := "tokens:\n  - {name: all, token: " + all + "}\n  - {name: billing, token: " + some + ", groups: [billing]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startInbox(t, "", "--store", "memory:", "--tokens-file", file)
	key := lease.Key{Bus: "b", Group: "shipping", Alias: "order", Message: "s3cr3t-key"}.String()
	for token, want := range map[string]bool{all: true, some: false, "": false, "s3cr3t-of-nobody-at-all": false} {
		_, err := p.client(t, token).ReadLease(t.Context(), key)
		if (err == nil) != want || err != nil && !waybill.IsUnavailable(err) {
			t.Errorf("ReadLease() = %v, want success %v", err, want)
		}
	}
	mustBegin(t, p.client(t, some), lease.Key{Bus: "b", Group: "billing", Alias: "order", Message: "s3cr3t-key"}.String())
	if code := p.terminate(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	log := p.said()
	if strings.Contains(log, "s3cr3t") || !strings.Contains(log, `"operation":"try-begin","status":"Acquired"`) {
		t.Errorf("the log is:\n%s", log)
	}
}

// TestInboxServiceDrains: a request that is in progress when the service is asked to stop is
// answered; new ones are not taken.
func TestInboxServiceDrains(t *testing.T) {
	t.Parallel()
	p := startInbox(t, "", "--store", "memory:")
	address := strings.TrimPrefix(p.url, "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const body = `{"key":"k"}`
	fmt.Fprintf(conn, "POST /v1/inbox/try-begin HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body))
	answers := bufio.NewReader(conn)
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the service answers %q, %v", line, err)
	}
	p.signal(t, syscall.SIGTERM)
	eventually(t, "new connections are refused", func() bool {
		other, err := net.Dial("tcp", address)
		if err == nil {
			other.Close()
		}
		return err != nil
	})
	fmt.Fprint(conn, body)
	rest, err := io.ReadAll(answers)
	if err != nil || !strings.Contains(string(rest), "200 OK") || !strings.Contains(string(rest), "Acquired") {
		t.Errorf("the answer is %q, %v", rest, err)
	}
	if code := p.exitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0:\n%s", code, p.said())
	}
}

// TestInboxServiceReplicas: several services of one store are one.
func TestInboxServiceReplicas(t *testing.T) {
	t.Parallel()
	args := onRedis()
	clients := []*inboxhttp.Client{startInbox(t, "", args...).client(t, ""), startInbox(t, "", args...).client(t, "")}
	var acquired, busy atomic.Int32
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			a, err := clients[i%2].TryBegin(context.Background(), lease.Request{Key: "k", TTL: time.Minute})
			switch {
			case err != nil:
				t.Errorf("TryBegin() = %v", err)
			case a.Status == lease.Acquired:
				acquired.Add(1)
			case a.Status == lease.Busy:
				busy.Add(1)
			}
		})
	}
	all.Wait()
	if acquired.Load() != 1 || busy.Load() != 99 {
		t.Errorf("%d acquired it and %d found it busy, want 1 and 99", acquired.Load(), busy.Load())
	}
	held := mustBegin(t, clients[0], "other")
	status, err := clients[1].MarkProcessed(t.Context(), held)
	wantLeaseStatus(t, "the other replica marks", status, err, lease.Processed)
}

// TestInboxServiceRefuses: what would be dangerous, or can't be.
func TestInboxServiceRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	good := "tokens: [{name: a, token: s3cr3t-0123456789abcdef}]"
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"public, without tokens", []string{"--listen", ":8080"}, "nobody would be asked"},
		{"no port", []string{"--listen", "localhost"}, "host:port"},
		{"half of TLS", []string{"--tls-key", "k"}, "go together"},
		{"tokens that others can read", []string{"--tokens-file", write("open", good, 0o644)}, "chmod 600"},
		{"no tokens in the file", []string{"--tokens-file", write("none", "tokens: []", 0o600)}, "no tokens in it"},
		{"a short token", []string{"--tokens-file", write("short", "tokens: [{name: a, token: s3cr3t}]", 0o600)}, "the minimum is 20"},
		{"neither token nor hash", []string{"--tokens-file", write("neither", "tokens: [{name: a}]", 0o600)}, "give it a token or a sha256"},
		{"another shape", []string{"--tokens-file", write("shape", "tokens: [{name: a, tenants: s3cr3t-0123456789abcdef}]", 0o600)}, "line 1: it must be a list"},
		{"an unknown field", []string{"--tokens-file", write("field", "tokens: [{name: a, s3cr3t: x}]", 0o600)}, "line 1: it must be a list"},
		{"an unknown store", []string{"--store", "etcd://app:s3cr3t@host"}, "redis://…, mongodb://… and memory: are known"},
		{"nobody answers", []string{"--store", "redis://:s3cr3t@127.0.0.1:1"}, "cannot reach the store redis://"},
		{"a negative rate", []string{"--store", "memory:", "--rate-limit", "-1"}, "Config.RateLimit: is -1"},
		{"an argument", []string{"serve"}, "unknown command"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := startProgram(t, dir, append([]string{"inbox"}, tt.args...)...)
			if code := p.exitCode(t); code == 0 || !strings.Contains(p.said(), tt.want) || strings.Contains(p.said(), "s3cr3t") {
				t.Errorf("exit code %d, said is:\n%s\nwant %q in it", code, p.said(), tt.want)
			}
		})
	}
}

// TestInboxService_ShortRetention (AS-47): a retention below a week is warned of.
func TestInboxService_ShortRetention(t *testing.T) {
	t.Parallel()
	for retention, want := range map[string]bool{"6d": true, "7d": false, "30d": false} {
		p := startInbox(t, "", "--store", "memory:", "--inbox-retention", retention)
		if got := strings.Contains(p.said(), "inbox.retention is short"); got != want {
			t.Errorf("with %s the log is, want warned %v:\n%s", retention, want, p.said())
		}
	}
}

// TestInboxService_StoreAway (AS-49): while the store is away the service is not ready, answers with codes of
// 500 and above, its client fails closed, and both recover.
func TestInboxService_StoreAway(t *testing.T) {
	t.Parallel()
	target, err := url.Parse(redisURL())
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faultproxy.New(context.WithoutCancel(t.Context()), target.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	target.Host = proxy.Addr()
	args := append(onRedis(), "--store", target.String())
	p := startInbox(t, "", args...)
	c := p.client(t, "")
	held := mustBegin(t, c, "k")
	ready := func() int {
		r, err := httpClient.Get(p.url + "/health/ready")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.StatusCode
	}
	if code := ready(); code != http.StatusOK {
		t.Errorf("ready is %d", code)
	}
	proxy.Refuse(true)
	proxy.Cut()
	if code := ready(); code != http.StatusServiceUnavailable {
		t.Errorf("ready is %d while the store is away, want 503", code)
	}
	if a, err := c.TryBegin(t.Context(), lease.Request{Key: "other", TTL: time.Minute}); !waybill.IsUnavailable(err) || a.Status != "" {
		t.Errorf("TryBegin() = %+v, %v, want unavailable", a, err)
	}
	proxy.Refuse(false)
	eventually(t, "the service is ready", func() bool { return ready() == http.StatusOK })
	proxy.Stall(true) // the store takes requests and is silent
	if code := ready(); code != http.StatusServiceUnavailable {
		t.Errorf("ready is %d while the store is silent, want 503", code)
	}
	proxy.Stall(false)
	eventually(t, "the service is ready again", func() bool { return ready() == http.StatusOK })
	status, err := c.MarkProcessed(t.Context(), held)
	wantLeaseStatus(t, "marked after the outage", status, err, lease.Processed)
}

// TestInboxServiceFile: without a store it makes a file in the working directory, and what was
// processed is remembered after a crash.
func TestInboxServiceFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startInbox(t, dir)
	c := p.client(t, "")
	held := mustBegin(t, c, "held")
	status, err := c.MarkProcessed(t.Context(), mustBegin(t, c, "done"))
	wantLeaseStatus(t, "MarkProcessed()", status, err, lease.Processed)
	p.signal(t, syscall.SIGKILL)
	p.exitCode(t)
	if _, err := os.Stat(filepath.Join(dir, "inbox.db")); err != nil {
		t.Error(err)
	}
	c = startInbox(t, dir).client(t, "")
	a, err := c.TryBegin(t.Context(), lease.Request{Key: "done", TTL: time.Minute})
	wantLeaseStatus(t, "TryBegin() of what is done", a.Status, err, lease.Processed)
	status, err = c.MarkProcessed(t.Context(), held)
	wantLeaseStatus(t, "MarkProcessed() after the crash", status, err, lease.Processed)
}

// TestInboxServiceCleansUp: what is past its retention is removed, by the service itself.
func TestInboxServiceCleansUp(t *testing.T) {
	t.Parallel()
	c := startInbox(t, "", "--inbox-retention", "1s", "--cleanup-interval", "1s").client(t, "")
	status, err := c.MarkProcessed(t.Context(), mustBegin(t, c, "done"))
	wantLeaseStatus(t, "MarkProcessed()", status, err, lease.Processed)
	eventually(t, "the key is gone", func() bool {
		r, err := c.ReadLease(t.Context(), "done")
		return err == nil && r.Status == lease.Unknown
	})
}

// TestInboxServiceNeedsTables: tables of a database that others use are not made unasked.
func TestInboxServiceNeedsTables(t *testing.T) {
	t.Parallel()
	p := startProgram(t, t.TempDir(), "inbox", "--store", postgresURL(), "--schema", "none-"+waybill.NewID()[24:])
	if code := p.exitCode(t); code != 1 || !strings.Contains(p.said(), "has no tables yet; run: waybill migrate") {
		t.Errorf("exit code %d, said is:\n%s", code, p.said())
	}
}

// TestInboxServiceTLS: it speaks TLS if it has a certificate, and nothing else then.
func TestInboxServiceTLS(t *testing.T) {
	t.Parallel()
	model := httptest.NewTLSServer(nil) // has a certificate for 127.0.0.1, and a client that trusts it
	defer model.Close()
	dir := t.TempDir()
	pair := model.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, "key.pem": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := startInbox(t, dir, "--store", "memory:", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
	c, err := inboxhttp.NewClient(inboxhttp.ClientConfig{URL: p.url, HTTPClient: model.Client(), Timeout: unreached})
	if err != nil {
		t.Fatal(err)
	}
	mustBegin(t, c, "k")
	for name, address := range map[string]string{"a certificate that is not trusted": p.url, "plain HTTP": strings.Replace(p.url, "https:", "http:", 1)} {
		c, err := inboxhttp.NewClient(inboxhttp.ClientConfig{URL: address, MaxRetries: waybill.NoRetries, Timeout: unreached})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.ReadLease(t.Context(), "k"); err == nil {
			t.Errorf("%s: the client has an answer", name)
		}
	}
}
