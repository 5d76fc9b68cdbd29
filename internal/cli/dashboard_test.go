package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/dashboard"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/outbox"
)

// httpClient keeps no connections: httptest closes idle ones of the default client, also those that
// another test is about to use.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// lockedBuffer is written by the program while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestDashboard_Refuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := write("good", "ann admin 0123456789abcdef0123\n", 0o600)
	open := write("open", "ann admin 0123456789abcdef0123\n", 0o644)
	tests := []struct {
		name string
		args []string
		env  string
		want string
	}{
		{"public, without tokens", []string{"--listen", ":8090"}, "", "nobody would be asked who they are"},
		{"all addresses, without tokens", []string{"--listen", "0.0.0.0:8090"}, "", "--tokens-file or WAYBILL_DASHBOARD_TOKENS"},
		{"a name that may lead anywhere", []string{"--listen", "example.org:8090"}, "", "nobody would be asked"},
		{"tokens in the clear", []string{"--listen", ":8090", "--tokens-file", good}, "", "would travel in the clear"},
		{"a file that others can read", []string{"--tokens-file", open}, "", "chmod 600"},
		{"an empty file", []string{"--tokens-file", write("empty", "\n", 0o600)}, "", "is empty"},
		{"only comments", []string{"--tokens-file", write("comments", "# none\n", 0o600)}, "", "nobody could sign in"},
		{"no such file", []string{"--tokens-file", filepath.Join(dir, "none")}, "", "no such file"},
		{"no role", nil, "ann S3CR3T-0123456789abcdef", "line 1 of the tokens has 2 words"},
		{"an unknown role", nil, "ann S3CR3T-0123456789abcdef root", "the second word is not a role"},
		{"no tenant", nil, "ann reader@ S3CR3T-0123456789abcdef", "by @ and a tenant"},
		{"a short token", nil, "ann admin S3CR3T", "the minimum is 20"},
		{"half of TLS", []string{"--tls-cert", "c"}, "", "go together"},
		{"no port", []string{"--listen", "localhost"}, "", "host:port"},
		{"a header of anybody", []string{"--user-header", "X-User", "--grant", "*=reader"}, "", "anybody could claim"},
		{"a bad range", []string{"--proxy", "10.0.0.0/99"}, "", "10.0.0.0/8"},
		{"a bad grant", []string{"--proxy", "10.0.0.1", "--user-header", "X-User", "--grant", "sre"}, "", "is not a role"},
		{"both", []string{"--proxy", "10.0.0.1", "--user-header", "X-User", "--tokens-file", good}, "", "do not go together"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var env []string
			if tt.env != "" {
				env = []string{config.TokensEnv + "=" + tt.env}
			}
			r := runProgram(t.Context(), env, append([]string{"dashboard", "--store", "sqlite:" + filepath.Join(dir, "none.db")}, tt.args...)...)
			if r.code != exitUsage || !strings.Contains(r.stderr, tt.want) || strings.Contains(r.stderr, "S3CR3T") {
				t.Errorf("exit code %d, %q; want 2, %q, and no secret", r.code, r.stderr, tt.want)
			}
		})
	}
}

func TestDashboard_Serves(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + filepath.Join(t.TempDir(), "w.db")
	if r := runProgram(t.Context(), nil, "migrate", "--store", store); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	secret := "0123456789abcdef0123"
	for _, tokens := range []string{"", "# people\n;ann reader " + secret} {
		url, stop := startDashboard(t, store, tokens)
		want := map[string]int{"": http.StatusOK, secret: http.StatusOK}
		if tokens != "" {
			want[""] = http.StatusUnauthorized
		}
		for token, status := range want {
			if got, _ := getAs(t, url, token); got != status {
				t.Errorf("tokens %q, sent %q: status %d, want %d", tokens, token, got, status)
			}
		}
		stop()
	}
}

// A token that is limited to a tenant shows what a store has of that tenant.
func TestDashboard_Tenant(t *testing.T) {
	t.Parallel()
	cfg := opener.StoreConfig{URL: "sqlite:" + filepath.Join(t.TempDir(), "w.db")}
	if r := runProgram(t.Context(), nil, "migrate", "--store", cfg.URL); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	db, store, err := opener.OpenSQL(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	w, err := outbox.NewWriter(store, outbox.Config{Source: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for _, tenant := range []string{"acme", "globex"} {
		_, err = w.Enqueue(t.Context(), tx, waybill.Message{ID: tenant + "-1", Topic: "orders", Tenant: tenant})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"acme", "globex"} { // letters 1 and 2
		m := waybill.Message{ID: tenant + "-lost", Topic: "orders", Source: "shop", Tenant: tenant}
		m.Complete()
		if _, err := store.BuryMessage(t.Context(), inbox.Letter{Record: inbox.RecordOf("billing", &m), Message: m, Reason: waybill.ReasonRejected, Error: "no", Attempts: 1}); err != nil {
			t.Fatal(err)
		}
	}
	secret := "0123456789abcdef0123"
	url, stop := startDashboard(t, cfg.URL, "kim operator@acme "+secret)
	defer stop()
	for path, want := range map[string]int{
		"messages?status=Pending": http.StatusOK, "messages?id=acme-1": http.StatusOK, "messages?id=acme-lost&inbox=1": http.StatusOK, "dead/list": http.StatusOK, "dead/1": http.StatusOK,
		"dead/2": http.StatusNotFound, "dead": http.StatusForbidden, "audit": http.StatusForbidden,
	} {
		status, page := getAs(t, url+path, secret)
		if status != want || strings.Contains(page, "globex") || want == http.StatusOK && !strings.Contains(page, "acme-") {
			t.Errorf("%s: status %d, want %d, and acme's messages only:\n%s", path, status, want, page)
		}
	}
}

// startDashboard runs the command, and returns where it serves and how to stop it.
func startDashboard(t *testing.T, store, tokens string) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var out lockedBuffer
	code := make(chan int, 1)
	go func() {
		env := []string{config.TokensEnv + "=" + tokens}
		code <- run(ctx, []string{"dashboard", "--store", store, "--listen", "127.0.0.1:0"}, env, io.Discard, &out)
	}()
	return awaitURL(t, &out), func() {
		t.Helper()
		cancel()
		if c := <-code; c != exitOK {
			t.Errorf("exit code %d: %s", c, out.String())
		}
	}
}

// getAs returns the status and the body of a page.
func getAs(t *testing.T, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := httpClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// TestDashboard_Checks shows what the doctor finds.
func TestDashboard_Checks(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + filepath.Join(t.TempDir(), "w.db")
	if r := runProgram(t.Context(), nil, "migrate", "--store", store); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	url, stop := startDashboard(t, store, "")
	defer stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	page := ""
	for deadline := time.Now().Add(testPatience); !strings.Contains(page, "<table>"); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("the checks are not made within %v:\n%s", testPatience, page)
		}
		_, page = getAs(t, url+"checks", "")
	}
	for _, want := range []string{"<b>schema</b>", "the newest", "not checked, none is set", "<b>practices</b>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of checks lacks %q:\n%s", want, page)
		}
	}
	for _, subject := range seenAnyway {
		if strings.Contains(page, "<b>"+subject+"</b>") {
			t.Errorf("it shows %q, which the overview shows anyway", subject)
		}
	}
}

// TestForDashboard_Refused shows that options which can't be used are a finding.
func TestForDashboard_Refused(t *testing.T) {
	t.Parallel()
	found := examination{store: opener.StoreConfig{URL: "nonsense:"}}.forDashboard(t.Context())
	if len(found) != 1 || found[0].Level != dashboard.Fail || found[0].Detail == "" {
		t.Errorf("forDashboard() = %+v, want one failure", found)
	}
}

var announced = regexp.MustCompile(`http://127\.0\.0\.1:\d+/`)

func awaitURL(t *testing.T, out *lockedBuffer) string {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(testPatience); time.Now().Before(deadline); <-tick.C {
		if url := announced.FindString(out.String()); url != "" {
			return url
		}
	}
	t.Fatalf("it does not say where it is: %s", out.String())
	return ""
}
