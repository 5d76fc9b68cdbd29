package inboxhttp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/observe"
)

const secret = "s3cr3t-of-enough-bytes-"

func mustToken(t *testing.T, name string) Token {
	t.Helper()
	token, err := NewToken(name, secret+name)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestTokens (AS-48): without a token that is known nobody gets in, and no token is disclosed.
func TestTokens(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	observer := observe.LogTo(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	sum := sha256.Sum256([]byte(secret + "b"))
	hashed, err := NewToken("b", "sha256:"+hex.EncodeToString(sum[:]))
	if err != nil {
		t.Fatal(err)
	}
	h := newServer(t, &stub{}, Config{Tokens: []Token{mustToken(t, "a"), hashed}, Observer: observer})
	for header, code := range map[string]int{
		"":                        401,
		"Bearer":                  401,
		"Bearer ":                 401,
		"Bearer " + secret + "c":  401,
		"Bearer " + secret + "a ": 401,
		"Basic " + secret + "a":   401,
		secret + "a":              401,
		"Bearer " + secret + "a":  200,
		"bearer " + secret + "b":  200,
		"Bearer " + string(hex.EncodeToString(sum[:])): 401,
	} {
		for _, request := range [][3]string{{"POST", "/v1/inbox/try-begin", `{"key":"k"}`}, {"GET", "/v1/inbox/k", ""}} {
			r := send(h, request[0], request[1], request[2], "Authorization", header)
			if r.StatusCode != code {
				t.Errorf("with %q the answer is %d, want %d", header, r.StatusCode, code)
			}
			if code == 401 {
				if r.Header.Get("WWW-Authenticate") != "Bearer" {
					t.Error("WWW-Authenticate is missing")
				}
				wantProblem(t, r, 401, "token")
			}
		}
	}
	if text := log.String(); !strings.Contains(text, "status=401") || strings.Contains(text, "s3cr3t") {
		t.Errorf("the log is:\n%s", text)
	}
}

func TestToken_Limits(t *testing.T) {
	t.Parallel()
	key := func(tenant, bus, group string) string {
		return lease.Key{Tenant: tenant, Bus: bus, Group: group, Alias: "order", Message: "1"}.String()
	}
	for _, tt := range []struct {
		token Token
		key   string
		want  bool
	}{
		{Token{}, "anything", true},
		{Token{Tenants: []string{"acme"}}, key("acme", "b", "g"), true},
		{Token{Tenants: []string{"acme"}}, key("other", "b", "g"), false},
		{Token{Tenants: []string{"acme"}}, key("", "b", "g"), false},
		{Token{Tenants: []string{waybill.DefaultTenant}}, key("", "b", "g"), true},
		{Token{Buses: []string{"b", "c"}}, key("", "c", "g"), true},
		{Token{Buses: []string{"b"}}, key("", "b:g", "g"), false},
		{Token{Groups: []string{"g"}}, key("", "b", "g"), true},
		{Token{Groups: []string{"g"}}, key("", "g", "b"), false},
		{Token{Groups: []string{"g"}, Buses: []string{"b"}}, key("", "x", "g"), false},
		{Token{Groups: []string{"g"}}, "b:g:x", false},
		{Token{Groups: []string{"g"}}, "anything", false},
		{Token{Groups: []string{"g"}}, lease.Key{Bus: "b", Group: "g", Message: strings.Repeat("m", 600)}.String(), true},
	} {
		tt.token.Name, tt.token.SHA256 = "a", sha256.Sum256([]byte(secret))
		h := newServer(t, &stub{status: lease.Processed}, Config{Tokens: []Token{tt.token}})
		for path, body := range map[string]string{
			"try-begin": `{"key":%q}`, "renew": `{"key":%q,"leaseId":"l"}`, "mark-processed": `{"key":%q,"leaseId":"l"}`,
			"release": `{"key":%q,"leaseId":"l"}`, "try-begin/batch": `{"items":[{"key":%q}]}`,
			"mark-processed/batch": `{"items":[{"key":%q,"leaseId":"l"}]}`, tt.key: "",
		} {
			method := "POST"
			if body == "" {
				method = "GET"
			} else {
				body = fmt.Sprintf(body, tt.key)
			}
			r := send(h, method, "/v1/inbox/"+strings.ReplaceAll(path, "%", "%25"), body, "Authorization", "Bearer "+secret)
			if (r.StatusCode == 200) != tt.want || !tt.want && r.StatusCode != 403 {
				t.Errorf("%+v, %s %s: %d, allowed is %v", tt.token, path, tt.key, r.StatusCode, tt.want)
			}
		}
	}
}

func TestNewToken_Refuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "s3cr3t", "sha256:", "sha256:s3cr3t", "sha256:" + strings.Repeat("a", 62)} {
		if _, err := NewToken("a", s); err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("NewToken(%q) = %v", s, err)
		}
	}
}

// TestServer_RateLimit: each token has its own rate, and a batch counts as many as it has keys.
func TestServer_RateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newServer(t, &stub{}, Config{Tokens: []Token{mustToken(t, "a"), mustToken(t, "b")}, RateLimit: 4})
		ask := func(name, path, body string) int {
			return send(h, "POST", "/v1/inbox/"+path, body, "Authorization", "Bearer "+secret+name).StatusCode
		}
		one, three := `{"key":"k"}`, `{"items":[{"key":"1"},{"key":"2"},{"key":"3"}]}`
		for i, step := range []struct {
			wait time.Duration
			name string
			path string
			body string
			want int
		}{
			{0, "a", "try-begin", one, 200},
			{0, "a", "try-begin/batch", three, 200},
			{0, "a", "try-begin", one, 429},
			{0, "b", "try-begin", one, 200},
			{249 * time.Millisecond, "a", "try-begin", one, 429},
			{time.Millisecond, "a", "try-begin/batch", three, 200}, // two in debt
			{500 * time.Millisecond, "a", "try-begin", one, 429},
			{250 * time.Millisecond, "a", "try-begin", one, 200},
			{time.Hour, "a", "try-begin/batch", three, 200},
			{0, "a", "try-begin", one, 200},
			{0, "a", "try-begin", one, 429},
		} {
			time.Sleep(step.wait)
			if got := ask(step.name, step.path, step.body); got != step.want {
				t.Errorf("step %d is answered with %d, want %d", i, got, step.want)
			}
		}
		r := send(h, "POST", "/v1/inbox/try-begin", one, "Authorization", "Bearer "+secret+"a")
		wantProblem(t, r, 429, "keys per second")
		if r.Header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After is %q", r.Header.Get("Retry-After"))
		}
	})
}
