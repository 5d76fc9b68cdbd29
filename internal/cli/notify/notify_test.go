package notify

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill/broker/httpbroker"
	"github.com/waybill-go/waybill/internal/alert"
)

var since = time.Date(2026, 8, 1, 3, 0, 0, 0, time.UTC)

// hostile is a text that would like to be markup, another field, or a header.
const hostile = "=?utf-8?q?x?= x`*y*_<!channel>&<https://evil.example|click> \"},{\r\nBcc: all@evil.example\r\n.\r\n\x1b[2J\u202e"

func sample() []alert.Alert {
	finding := alert.Finding{
		Severity: "problem", Subject: "store", Found: "cannot reach the store", Advice: "start it",
		Dashboard: "https://waybill.example/checks", Runbook: "https://docs.example/runbooks.md#database-failover",
	}
	hurt := alert.Finding{Severity: hostile, Subject: hostile, About: hostile, Found: hostile, Advice: hostile, Runbook: "https://docs.example/x"}
	return []alert.Alert{
		{ID: "began-1", Event: alert.Began, Finding: finding, Since: since},
		{ID: "ended-2", Event: alert.Ended, Finding: hurt, Since: since, Until: since.Add(time.Hour)},
	}
}

// request is what an endpoint received.
type request struct {
	header http.Header
	body   []byte
}

// endpoint answers with a code and keeps what it receives.
func endpoint(t *testing.T, code int) (url string, received chan request) {
	t.Helper()
	received = make(chan request, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		received <- request{r.Header, body}
		if code == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "s3cr3t of the server")
	}))
	t.Cleanup(server.Close)
	return server.URL, received
}

func newWebhook(t *testing.T, url string, secret httpbroker.Secret) *Webhook {
	t.Helper()
	w, err := NewWebhook("shop", url, []httpbroker.Secret{secret})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestWebhook: the body is JSON, signed, and the same texts come out of it that went in, but for what controls.
func TestWebhook(t *testing.T) {
	t.Parallel()
	url, received := endpoint(t, http.StatusNoContent)
	secret := httpbroker.NewSecret()
	if err := newWebhook(t, url, secret).Send(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	r := <-received
	if err := httpbroker.Verify(r.header, r.body, 0, secret); err != nil {
		t.Error(err)
	}
	if id := r.header.Get(httpbroker.HeaderID); id != "began-1" {
		t.Errorf("the id is %q, want that of the first alert", id)
	}
	var got struct {
		System string
		Alerts []map[string]string
	}
	if err := json.Unmarshal(r.body, &got); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
	if got.System != "shop" || len(got.Alerts) != 2 {
		t.Fatalf("received %+v", got)
	}
	for name, want := range map[string]string{
		"id": "began-1", "event": "began", "severity": "problem", "subject": "store", "found": "cannot reach the store", "advice": "start it",
		"since": "2026-08-01T03:00:00Z", "dashboard": "https://waybill.example/checks", "runbook": "https://docs.example/runbooks.md#database-failover", "until": "",
	} {
		if got.Alerts[0][name] != want {
			t.Errorf("%s is %q, want %q", name, got.Alerts[0][name], want)
		}
	}
	if second := got.Alerts[1]; second["until"] != "2026-08-01T04:00:00Z" || second["found"] != line(hostile) || strings.ContainsAny(second["found"], "\r\n\x1b\u202e") {
		t.Errorf("the second is %+v", second)
	}
}

// TestSlack: nothing that was found is markup, a link or a call to everybody.
func TestSlack(t *testing.T) {
	t.Parallel()
	url, received := endpoint(t, http.StatusOK)
	s, err := NewSlack("shop", url)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal((<-received).body, &got); err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	const first = "*`shop`* `problem began: store`\nfound: `cannot reach the store`\nsince: `2026-08-01 03:00:00Z`\ndo: `start it`\n" +
		"https://waybill.example/checks\nhttps://docs.example/runbooks.md#database-failover\n\n"
	rest, ok := strings.CutPrefix(got["text"], first)
	if !ok {
		t.Errorf("the text is\n%s\nwant at its beginning\n%s", got["text"], first)
	}
	if strings.ContainsAny(rest, "<>\x1b\u202e\r") || strings.Contains(rest, "docs.example") {
		t.Errorf("the second is %q", rest)
	}
	for written := range strings.Lines(rest) {
		if strings.Count(written, "`")%2 != 0 || strings.Contains(outside(written), "y*") {
			t.Errorf("%q is not all code", written)
		}
	}
}

// outside returns what is not code.
func outside(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		if i%2 == 0 {
			b.WriteString(part)
		}
	}
	return b.String()
}

// TestPost_Fails: the error says what went wrong; it has neither the URL, which is a secret, nor the answer.
func TestPost_Fails(t *testing.T) {
	t.Parallel()
	hangs := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		<-hangs
	}))
	t.Cleanup(func() { close(hangs); hanging.Close() })
	fails, _ := endpoint(t, http.StatusInternalServerError)
	redirects, redirected := endpoint(t, http.StatusFound)
	for _, tt := range []struct{ name, url, want string }{
		{"500", fails, "it answers 500 Internal Server Error"},
		{"redirect", redirects, "it answers 302 Found"},
		{"hangs", hanging.URL, "context deadline exceeded"},
		{"refuses", "http://" + closedPort(t), "connection refused"},
		{"accepts and closes", "http://" + listen(t, func(c net.Conn) { _ = c.Close() }), "connection"},
		{"answers nonsense", "http://" + listen(t, func(c net.Conn) { _, _ = io.WriteString(c, "s3cr3t of the server\r\n\r\n"); _ = c.Close() }), "its answer is no HTTP"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			slack, err := NewSlack("shop", tt.url+"/services/T0/S3CR3T")
			if err != nil {
				t.Fatal(err)
			}
			hook := newWebhook(t, tt.url+"/S3CR3T", httpbroker.NewSecret())
			for _, c := range []interface {
				Send(context.Context, []alert.Alert) error
			}{slack, hook} {
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				err := c.Send(ctx, sample())
				cancel()
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(strings.ToLower(err.Error()), "s3cr3t") {
					t.Errorf("Send() = %v, want %q", err, tt.want)
				}
			}
		})
	}
	t.Cleanup(func() {
		if n := len(redirected); n != 2 {
			t.Errorf("%d requests where a redirect is answered, want two: it is not followed", n)
		}
	})
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// listen serves connections with serve, one at a time.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var closed atomic.Bool
	t.Cleanup(func() { closed.Store(true); _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				if !closed.Load() {
					t.Error(err)
				}
				return
			}
			serve(c)
		}
	}()
	return l.Addr().String()
}

func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	good := []httpbroker.Secret{httpbroker.NewSecret()}
	webhook := func(url string, secrets []httpbroker.Secret) error {
		_, err := NewWebhook("shop", url, secrets)
		return err
	}
	slack := func(url string) error { _, err := NewSlack("shop", url); return err }
	mail := func(server, from string, to ...string) error {
		_, err := NewMail(MailConfig{System: "shop", Server: server, From: from, To: to})
		return err
	}
	for name, err := range map[string]error{
		"no host":           webhook("https:///S3CR3T", good),
		"no URL":            webhook("S3CR3T", good),
		"another scheme":    slack("ftp://host/S3CR3T"),
		"a malformed URL":   slack("https://host:S3CR3T/"),
		"no secret":         webhook("https://host/S3CR3T", nil),
		"a bad secret":      webhook("https://host/", []httpbroker.Secret{"whsec_S3CR3T"}),
		"mail, no URL":      mail("host:25:S3CR3T", "a@b.example", "c@d.example"),
		"mail, a bad port":  mail("smtp://u:S3CR3T@host:port", "a@b.example", "c@d.example"),
		"mail, a path":      mail("smtp://u:S3CR3T@host/path", "a@b.example", "c@d.example"),
		"mail, no sender":   mail("smtp://u:S3CR3T@host", "", "c@d.example"),
		"mail, two headers": mail("smtp://u:S3CR3T@host", "a@b.example\r\nBcc: c@d.example", "c@d.example"),
		"mail to nobody":    mail("smtp://u:S3CR3T@host", "a@b.example"),
		"mail to no one":    mail("smtp://u:S3CR3T@host", "a@b.example", "nobody"),
	} {
		if err == nil || strings.Contains(err.Error(), "S3CR3T") {
			t.Errorf("%s: %v, want it refused without the secret", name, err)
		}
	}
	if err := errors.Join(webhook("http://127.0.0.1:1/x", good), slack("https://hooks.example/x"), mail("smtp://host", "Ann <a@b.example>", "c@d.example")); err != nil {
		t.Error(err)
	}
}
