package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestTokens_Refuse(t *testing.T) {
	t.Parallel()
	if _, err := NewTokens(); err == nil {
		t.Error("NewTokens() of none = nil")
	}
	for _, secret := range []string{"", "short", "sha256:", "sha256:xyz", "sha256:" + strings.Repeat("0", 62)} {
		if _, err := NewToken("a", secret, Grant{Role: Reader}); err == nil {
			t.Errorf("NewToken(%q) = nil", secret)
		} else if secret == "short" && strings.Contains(err.Error(), "short") {
			t.Errorf("the error quotes the secret: %v", err)
		}
	}
	one, err := NewToken("a", secrets["reader"], Grant{Role: Reader})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Token){
		"blank name": func(t *Token) { t.Name = " " }, "name with a line end": func(t *Token) { t.Name = "a\nb" }, "no role": func(t *Token) { t.Grant = Grant{} },
	} {
		bad := one
		change(&bad)
		if _, err := NewTokens(bad); err == nil {
			t.Errorf("NewTokens() with %s = nil", name)
		}
	}
	if _, err := NewTokens(one, one); err == nil {
		t.Error("NewTokens() of one secret for two = nil")
	}
}

func TestTokens_Hashed(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("a secret that nobody guesses"))
	token, err := NewToken("a", "sha256:"+hex.EncodeToString(sum[:]), Grant{Role: Operator, Reveal: true})
	if err != nil {
		t.Fatal(err)
	}
	access, err := NewTokens(token)
	if err != nil {
		t.Fatal(err)
	}
	user, ok := access.checkHash(sum)
	if want := (User{"a", Grant{Role: Operator, Reveal: true}}); !ok || user != want {
		t.Errorf("checkHash() = %v, %v, want %v", user, ok, want)
	}
	if _, ok := access.checkHash(sha256.Sum256([]byte(hex.EncodeToString(sum[:])))); ok {
		t.Error("the hash itself was taken for the secret")
	}
}

func TestParseGrant(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Grant{"reader": {Role: Reader}, "admin+payloads": {Role: Admin, Reveal: true}} {
		if got, err := ParseGrant(text); err != nil || got != want {
			t.Errorf("ParseGrant(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "nobody", "root", "reader+", "+payloads"} {
		if _, err := ParseGrant(text); err == nil {
			t.Errorf("ParseGrant(%q) = nil", text)
		}
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, full())
	cfg.Access, cfg.AllowLoopback = nil, true
	d := newDashboard(t, cfg)
	tests := []struct {
		remote, host, header string
		want                 int
	}{
		{"127.0.0.1:5000", "localhost:8090", "", http.StatusOK},
		{"127.0.0.1:5000", "127.0.0.1:8090", "", http.StatusOK},
		{"[::1]:5000", "[::1]:8090", "", http.StatusOK},
		{"[::ffff:127.0.0.1]:5000", "localhost", "", http.StatusOK},
		{"127.0.0.1:5000", "evil.example:8090", "", http.StatusUnauthorized},
		{"127.0.0.1:5000", "localhost.evil.example", "", http.StatusUnauthorized},
		{"127.0.0.1:5000", "localhost", "X-Forwarded-For", http.StatusUnauthorized},
		{"127.0.0.1:5000", "localhost", "Forwarded", http.StatusUnauthorized},
		{"192.0.2.7:5000", "localhost:8090", "", http.StatusUnauthorized},
		{"192.0.2.7:5000", "192.0.2.1:8090", "", http.StatusUnauthorized},
		{"@", "localhost", "", http.StatusUnauthorized},
	}
	for _, tt := range tests {
		for _, path := range []string{"/", "/login"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.RemoteAddr, r.Host = tt.remote, tt.host
			if tt.header != "" {
				r.Header.Set(tt.header, "for=192.0.2.7")
			}
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("%s from %s for %s, header %q: status %d, want %d", path, tt.remote, tt.host, tt.header, w.Code, tt.want)
			}
			if w.Code != http.StatusOK && strings.Contains(w.Body.String(), "<nav") {
				t.Errorf("%s from %s for %s, header %q: the refusal is that to somebody who is known", path, tt.remote, tt.host, tt.header)
			}
		}
	}
}

func TestProxyAccess(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	access, err := NewProxyAccess(ProxyConfig{
		Trusted: trusted, UserHeader: "X-User", GroupsHeader: "X-Groups",
		Groups: map[string]Grant{"sre": {Role: Operator, Reveal: true}, "boss": {Role: Admin}, "all": {Role: Reader}},
	})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, remote  string
		users, groups []string
		want          User
	}{
		{"an operator", "10.1.2.3:1", []string{"ann"}, []string{"sre"}, User{"ann", Grant{Role: Operator, Reveal: true}}},
		{"the highest counts", "10.1.2.3:1", []string{"ann"}, []string{"all, sre ,boss"}, User{"ann", Grant{Role: Admin, Reveal: true}}},
		{"not through the proxy", "192.0.2.7:1", []string{"ann"}, []string{"boss"}, User{}},
		{"nobody", "10.1.2.3:1", nil, []string{"boss"}, User{}},
		{"two names", "10.1.2.3:1", []string{"ann", "bob"}, []string{"boss"}, User{}},
		{"two lists of groups", "10.1.2.3:1", []string{"ann"}, []string{"boss", "sre"}, User{}},
		{"no group that counts", "10.1.2.3:1", []string{"ann"}, []string{"guests"}, User{}},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = tt.remote
		r.Header["X-User"], r.Header["X-Groups"] = tt.users, tt.groups
		got, ok := access.Authenticate(r)
		if ok != (tt.want.Name != "") || ok && got != tt.want {
			t.Errorf("%s: Authenticate() = %v, %v, want %v", tt.name, got, ok, tt.want)
		}
	}
	for name, cfg := range map[string]ProxyConfig{
		"no proxy":          {UserHeader: "X-User", Default: Grant{Role: Reader}},
		"no header":         {Trusted: trusted, Default: Grant{Role: Reader}},
		"no role":           {Trusted: trusted, UserHeader: "X-User"},
		"groups, no header": {Trusted: trusted, UserHeader: "X-User", Groups: map[string]Grant{"a": {Role: Reader}}},
	} {
		if _, err := NewProxyAccess(cfg); err == nil {
			t.Errorf("NewProxyAccess() with %s = nil", name)
		}
	}
}

// TestProxyAccess_Forms shows that who is known by a header needs a token of the form, too.
func TestProxyAccess_Forms(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, full())
	cfg.Access, _ = NewProxyAccess(ProxyConfig{
		Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, UserHeader: "X-User", Default: Grant{Role: Operator},
	})
	d := newDashboard(t, cfg)
	header := map[string]string{"X-User": "ann"}
	post := asked{method: http.MethodPost, path: "/dead/1/requeue", form: url.Values{"why": {"x"}}, header: header}
	if w := post.send(d); w.Code != http.StatusForbidden {
		t.Errorf("without a token of the form: status %d, want 403", w.Code)
	}
	post.token = "anything" // a bearer token proves nothing here
	if w := post.send(d); w.Code != http.StatusForbidden {
		t.Errorf("with a bearer token: status %d, want 403", w.Code)
	}
	m := formField.FindStringSubmatch(asked{path: "/dead/1", header: header}.send(d).Body.String())
	if m == nil {
		t.Fatal("the page has no token of the form")
	}
	post.form.Set("form", m[1])
	if w := post.send(d); w.Code != http.StatusSeeOther {
		t.Errorf("with it: status %d, want 303", w.Code)
	}
}

func TestSecureCookie(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, full())
	form := url.Values{"token": {secrets["reader"]}}
	post := asked{method: http.MethodPost, path: "/login", form: form, header: map[string]string{"X-Forwarded-Proto": "https"}}
	if c := post.send(newDashboard(t, cfg)).Result().Cookies()[0]; c.Secure {
		t.Error("the header of a proxy that is not trusted was believed")
	}
	cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} // httptest sends from there
	d := newDashboard(t, cfg)
	w := post.send(d)
	if c := w.Result().Cookies()[0]; !c.Secure || c.Name != "__Host-waybill_session" || c.Path != "/" {
		t.Errorf("behind a proxy that speaks TLS the cookie is %v", c)
	}
	if w.Header().Get("Strict-Transport-Security") == "" {
		t.Error("over TLS there is no Strict-Transport-Security")
	}
	if w := (asked{path: "/"}).send(d); w.Header().Get("Strict-Transport-Security") != "" {
		t.Error("without TLS there is a Strict-Transport-Security")
	}
	post.path = "/ops/login" // mounted there: its sessions are not those of a dashboard elsewhere
	if c := post.send(http.StripPrefix("/ops", d)).Result().Cookies()[0]; c.Path != "/" || !strings.HasPrefix(c.Name, "__Host-waybill_session_") {
		t.Errorf("mounted below a path the cookie is %v", c)
	}
}
