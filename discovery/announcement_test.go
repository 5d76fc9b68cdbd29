package discovery

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *waybill.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "discovery."+field {
		t.Errorf("error = %v, want the field %s refused", err, field)
	}
}

// TestAccept: what a finder takes for an inbox service, and what not.
func TestAccept(t *testing.T) {
	t.Parallel()
	f := newFinder(t, silent{t}, Config{Enabled: true, AllowedHosts: []string{"a.example.com", "10.0.0.7:8443"}})
	with := func(old, new string) string {
		t.Helper()
		body := answer("a", "https://a.example.com/x", 0, "id")
		if !strings.Contains(body, old) {
			t.Fatalf("%s is not in %s", old, body)
		}
		return strings.Replace(body, old, new, 1)
	}
	url := func(u string) string { return with("https://a.example.com/x", u) }
	for _, tc := range []struct {
		name, body string
		want       string // of the error; "" if it is accepted
	}{
		{"as it should be", with("", ""), ""},
		{"the endpoint as a string", `{"kind":"inbox","name":"redis","version":"v1","endpoint":"https://a.example.com"}`, ""},
		{"fields of a later version", with(`"kind"`, `"region":"eu","kind"`), ""},
		{"a port", url("https://10.0.0.7:8443"), ""},
		{"another port", url("https://10.0.0.7:22"), errHost.Error()},
		{"another host", url("https://b.example.com"), errHost.Error()},
		{"a host that ends alike", url("https://evil-a.example.com"), errHost.Error()},
		{"the cloud's metadata", url("https://169.254.169.254/latest"), errHost.Error()},
		{"without TLS", with(`"scheme":"https","url":"https:`, `"scheme":"http","url":"http:`), errScheme.Error()},
		{"two schemes", with(`"scheme":"https"`, `"scheme":"http"`), "another scheme"},
		{"a file", url("file:///etc/passwd"), "Endpoint.URL"},
		{"a user in the URL", url("https://u:hunter2@a.example.com"), "holds a user"},
		{"a query", url("https://a.example.com?key=hunter2"), "holds a query"},
		{"a fragment", url("https://a.example.com#hunter2"), "holds a query or a fragment"},
		{"an allowed host before an @", url("https://a.example.com@b.example.com"), "holds a user"},
		{"no URL", url(""), "is required"},
		{"no name", with(`"name":"a"`, `"name":""`), "Endpoint.Name"},
		{"a name of two lines", with(`"name":"a"`, `"name":"a\nlevel=ERROR"`), "Endpoint.Name"},
		{"another kind", with(`"inbox"`, `"outbox"`), errKind.Error()},
		{"another version", with(`"v1"`, `"v2"`), errKind.Error()},
		{"unknown authentication", with(`"bearer"`, `"magic"`), "Endpoint.Auth"},
		{"a lease of two days", with(`45`, `172800`), "Endpoint.LeaseDefault"},
		{"a lease that overflows", with(`45`, `9223372036854775807`), "Endpoint.LeaseDefault"},
		{"retention below nothing", with(`"retentionDays":14`, `"retentionDays":-1`), "Endpoint.RetentionDays"},
		{"a token", with(`"auth":"bearer"`, `"auth":"bearer","access_token":"hunter2"`), errSecret.Error()},
		{"a password, deep", with(`"kind"`, `"x":[{"y":{"PassWord":"hunter2"}}],"kind"`), errSecret.Error()},
		{"an API key", with(`"kind"`, `"Api-Key":"hunter2","kind"`), errSecret.Error()},
		{"a header", with(`"kind"`, `"x":"Bearer hunter2","kind"`), errSecret.Error()},
		{"not JSON", "hunter2", errNotJSON.Error()},
		{"JSON of another shape", `[]`, errNotJSON.Error()},
		{"too large", with(`"kind"`, `"x":"`+strings.Repeat("x", maxBodyLen)+`","kind"`), errTooLarge.Error()},
		{"the answer to another question", with(`"id"`, `"other"`), errAnswer.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, err := f.accept("id", []byte(tc.body))
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("accept() = %v, want it accepted", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("accept() = %+v, %v, want %q", e, err, tc.want)
			case err != nil && strings.Contains(err.Error(), "hunter2"):
				t.Errorf("the error quotes what it should not: %v", err)
			}
		})
	}
}

func TestAllow(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, url string
		want         bool
	}{
		{"a.example.com", "https://a.example.com", true},
		{"A.Example.com.", "https://a.example.COM.:443/x", true},
		{"a.example.com", "https://b.a.example.com", false},
		{"*.example.com", "https://b.a.example.com:9", true},
		{"*.example.com", "https://example.com", false},
		{"*.example.com", "https://notexample.com", false},
		{"a.example.com:443", "https://a.example.com", true},
		{"a.example.com:443", "https://a.example.com:444", false},
		{"[::1]:8443", "https://[::1]:8443", true},
		{"::1", "https://[::1]", true},
		{"*", "https://169.254.169.254", true},
		{"*:443", "https://anywhere:444", false},
	} {
		list, err := newAllow([]string{tc.pattern}, false)
		if err != nil {
			t.Errorf("%s: %v", tc.pattern, err)
			continue
		}
		u, err := parseURL("url", tc.url)
		if err != nil {
			t.Errorf("%s: %v", tc.url, err)
			continue
		}
		if got := list.check(u) == nil; got != tc.want {
			t.Errorf("%s allows %s: %v, want %v", tc.pattern, tc.url, got, tc.want)
		}
	}
	for _, pattern := range []string{"", "*.", "a.*.com", "https://a.example.com", "a@b", "a b", "a:"} {
		_, err := newAllow([]string{"ok", pattern}, false)
		wantInvalid(t, err, "Config.AllowedHosts[1]")
	}
}

func newKeys(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

func TestSigned(t *testing.T) {
	t.Parallel()
	public, private := newKeys(t)
	_, stranger := newKeys(t)
	f := newFinder(t, silent{t}, Config{Enabled: true, Bus: "b", Group: "g", TrustedKeys: []ed25519.PublicKey{make(ed25519.PublicKey, 32), public}})
	now := time.Now()
	body := func(group, id string, key ed25519.PrivateKey, at time.Time) []byte {
		t.Helper()
		e := Endpoint{Name: "a", URL: "https://a.example.com", Auth: AuthBearer, LeaseDefault: time.Minute, RetentionDays: 7, Priority: 3}
		b, err := encode(e, "b", group, id, key, at)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good := body("g", "id", private, now)
	for _, tc := range []struct {
		name string
		body []byte
		want error
	}{
		{"by a trusted key", good, nil},
		{"by nobody", body("g", "id", nil, now), errUntrusted},
		{"by a stranger", body("g", "id", stranger, now), errUntrusted},
		{"for another group", body("h", "id", private, now), errUntrusted},
		{"an old one", body("g", "id", private, now.Add(-maxAge-time.Minute)), errStale},
		{"one of the future", body("g", "id", private, now.Add(maxAge+time.Minute)), errStale},
		{"of another question", body("g", "other", private, now), errAnswer},
		{"for nobody in particular, as an answer", body("g", "", private, now), errUntrusted},
	} {
		if _, err := f.accept("id", tc.body); !errors.Is(err, tc.want) {
			t.Errorf("%s: accept() = %v, want %v", tc.name, err, tc.want)
		}
	}
	for _, change := range []struct{ old, new string }{
		{`"name":"a"`, `"name":"b"`}, {"https://a.", "https://b."}, {"bearer", "none"}, {`"seconds":60`, `"seconds":61`},
		{`"retentionDays":7`, `"retentionDays":8`}, {`"priority":3`, `"priority":4`}, {`"issuedAt":`, `"issuedAt":1`},
	} {
		forged := bytes.Replace(good, []byte(change.old), []byte(change.new), 1)
		if bytes.Equal(forged, good) {
			t.Errorf("%s is not in %s", change.old, good)
		}
		if _, err := f.accept("id", forged); !errors.Is(err, errUntrusted) {
			t.Errorf("with %s: accept() = %v, want %v", change.new, err, errUntrusted)
		}
	}
}

// TestEncode: what is said, field by field, and nothing else.
func TestEncode(t *testing.T) {
	t.Parallel()
	e := Endpoint{Name: "inbox-1", URL: "HTTPS://a.example.com", Auth: AuthBearer, LeaseDefault: time.Minute, RetentionDays: 7, Priority: 3}
	body, err := encode(e, "b", "g", "id", nil, time.Now())
	want := `{"kind":"inbox","name":"inbox-1","version":"v1","endpoint":{"scheme":"https","url":"HTTPS://a.example.com","auth":"bearer"},` +
		`"leaseDefaults":{"seconds":60},"retentionDays":7,"priority":3,"correlationId":"id"}`
	if string(body) != want || err != nil {
		t.Errorf("encode() = %s, %v, want %s", body, err, want)
	}
}

func TestConfigRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		field string
		cfg   Config
	}{
		{"Config.Required", Config{Required: true}},
		{"Config.AllowedHosts", Config{Enabled: true}},
		{"Config.AllowedHosts[0]", Config{Enabled: true, AllowedHosts: []string{"a/b"}}},
		{"Config.Endpoint", Config{Endpoint: "ftp://a"}},
		{"Config.Endpoint", Config{Endpoint: "https://u:p@a"}},
		{"Config.Timeout", Config{Timeout: time.Hour}},
		{"Config.Timeout", Config{Timeout: -1}},
		{"Config.SelectionWindow", Config{Timeout: time.Second, SelectionWindow: 2 * time.Second}},
		{"Config.CacheFor", Config{CacheFor: -1}},
		{"Config.Name", Config{Name: "a\nb"}},
		{"Config.Bus", Config{Bus: strings.Repeat("b", 91)}},
		{"Config.Group", Config{Group: strings.Repeat(".", 31)}},
		{"Config.TrustedKeys[0]", Config{TrustedKeys: []ed25519.PublicKey{nil}}},
	} {
		_, err := NewFinder(silent{t}, tc.cfg)
		wantInvalid(t, err, tc.field)
	}
	_, err := NewFinder(nil, Config{Enabled: true, AllowedHosts: []string{"*"}})
	wantInvalid(t, err, "Transport")
	if _, err := NewFinder(nil, Config{Enabled: true, Endpoint: "https://a"}); err != nil {
		t.Errorf("an explicit endpoint needs no transport: %v", err)
	}
}

func TestWord(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"orders-1_a": "orders-1_a", "a.b": "a%2Eb", "a*#> ": "a%2A%23%3E%20", "é": "%C3%A9", "%": "%25"} {
		if got, err := word("Bus", name); got != want || err != nil {
			t.Errorf("word(%q) = %q, %v, want %q", name, got, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(answer("a", "https://a.example.com", 1, "id")))
	f.Add([]byte(`{"kind":"inbox","name":"redis","version":"v1","endpoint":"https://a.example.com"}`))
	f.Add([]byte(`{"kind":"inbox","name":"a","version":"v1","endpoint":{"url":"https://u:p@a.example.com"}}`))
	f.Add([]byte(`{"kind":"inbox","token":"x"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a, e, err := decode(body, "id")
		if err != nil {
			return
		}
		if _, err := e.validate(); err != nil || a.CorrelationID != "id" {
			t.Fatalf("decoded %+v of %+v, which is wrong: %v", e, a, err)
		}
		again, err := encode(e, "b", "g", "id", nil, time.Now())
		if err != nil {
			t.Fatalf("what was decoded cannot be announced: %v", err)
		}
		if _, back, err := decode(again, "id"); err != nil || back != e {
			t.Fatalf("decoded again %+v, %v, want %+v", back, err, e)
		}
		if !json.Valid(again) || strings.Contains(fmt.Sprint(e), "\n") {
			t.Fatalf("%q leads to %q", body, again)
		}
	})
}
