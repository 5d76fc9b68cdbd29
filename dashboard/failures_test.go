package dashboard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// trial sends a token by the form for signing in, or as a bearer token.
func trial(d http.Handler, from, token string, form bool) *httptest.ResponseRecorder {
	a := asked{path: "/", from: from, token: token}
	if form {
		a = asked{method: http.MethodPost, path: "/login", from: from, form: url.Values{"token": {token}}}
	}
	return a.send(d)
}

func TestWrongTokens(t *testing.T) {
	t.Parallel()
	const here, elsewhere = "203.0.113.7:5000", "203.0.113.8:5000"
	for name, form := range map[string]bool{"form": true, "bearer": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDashboard(t, testConfig(t, full()))
				b := signIn(t, d, secrets["reader"])
				b.from = here
				for i := range maxFailures {
					if w := trial(d, here, "wrong-0123456789abcdef", form); w.Code != http.StatusUnauthorized {
						t.Fatalf("trial %d: status %d, want 401", i+1, w.Code)
					}
					time.Sleep(time.Second)
				}
				for _, form := range []bool{true, false} {
					for _, token := range []string{"wrong-0123456789abcdef", secrets["reader"]} {
						w := trial(d, here, token, form)
						if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "50" || len(w.Result().Cookies()) > 0 {
							t.Errorf("form %v, %q: status %d, Retry-After %q, want 429 and 50", form, token, w.Code, w.Header().Get("Retry-After"))
						}
						if strings.Contains(w.Body.String(), "orders") {
							t.Error("it shows data")
						}
					}
				}
				if w := trial(d, elsewhere, secrets["reader"], form); w.Code >= 400 {
					t.Errorf("from elsewhere: status %d", w.Code)
				}
				if w := b.send(asked{path: "/"}); w.Code != http.StatusOK {
					t.Errorf("in a session from there: status %d, want 200", w.Code)
				}
				time.Sleep(51 * time.Second)
				if w := trial(d, here, secrets["reader"], form); w.Code >= 400 {
					t.Errorf("after the wait: status %d", w.Code)
				}
			})
		})
	}
}

func TestFailing(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, full())
	cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	d := newDashboard(t, cfg)
	tests := []struct {
		remote string
		passed []string
		want   string
	}{
		{"203.0.113.7:1", nil, "203.0.113.7/32"},
		{"[2001:db8:1:2:3::4]:1", nil, "2001:db8:1:2::/64"},
		{"[::ffff:203.0.113.7]:1", nil, "203.0.113.7/32"},
		{"203.0.113.7:1", []string{"198.51.100.1"}, "203.0.113.7/32"},
		{"10.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1/32"},
		{"10.0.0.1:1", []string{"192.0.2.99, 198.51.100.1", "10.0.0.2"}, "198.51.100.1/32"},
		{"10.0.0.1:1", []string{"198.51.100.1, nonsense"}, "10.0.0.1/32"},
		{"10.0.0.1:1", nil, "10.0.0.1/32"},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = tt.remote
		r.Header["X-Forwarded-For"] = tt.passed
		if got := d.failing(r).from; got != netip.MustParsePrefix(tt.want) {
			t.Errorf("from %s for %q: failing() = %v, want %s", tt.remote, tt.passed, got, tt.want)
		}
	}
}

func TestFailures_AreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFailures()
		address := func(n int) origin {
			return origin{from: netip.PrefixFrom(netip.AddrFrom4([4]byte{1, byte(n >> 16), byte(n >> 8), byte(n)}), 32)}
		}
		for n := range maxFailing + 5 {
			f.add(address(n))
			if n < 10 {
				time.Sleep(time.Millisecond)
			}
		}
		if len(f.by) != maxFailing {
			t.Errorf("%d addresses are remembered, want %d", len(f.by), maxFailing)
		}
		if _, known := f.by[address(0)]; known {
			t.Error("the first one is still remembered")
		}
		time.Sleep(failureWindow)
		f.add(address(maxFailing + 10))
		if len(f.by) != 1 {
			t.Errorf("%d addresses are remembered after their window, want 1", len(f.by))
		}
	})
}

// TestFailures_UnknownProxy: one of many behind a proxy that we were not told of locks nobody else out, nor
// does who makes up clients try tokens by the thousand.
func TestFailures_UnknownProxy(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, testConfig(t, full()))
	from := func(client, token string) int {
		return asked{path: "/", token: token, header: map[string]string{"X-Forwarded-For": client}}.send(d).Code
	}
	for range maxFailures {
		from("198.51.100.1", "wrong")
	}
	if got := from("198.51.100.1", secrets["reader"]); got != http.StatusTooManyRequests {
		t.Errorf("who has sent wrong tokens: status %d, want 429", got)
	}
	if got := from("198.51.100.2", secrets["reader"]); got != http.StatusOK {
		t.Errorf("another one behind the same proxy: status %d, want 200", got)
	}
	refused := 0
	for i := range maxOfProxy {
		if from(fmt.Sprint("made up ", i), "wrong") == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Error("with clients made up nobody is refused")
	}
}
