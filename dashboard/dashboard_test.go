package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
)

func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		change     func(*Config)
	}{
		{"no authenticator", "dashboard.Access", func(c *Config) { c.Access = nil }},
		{"both", "dashboard.AllowLoopback", func(c *Config) { c.AllowLoopback = true }},
		{"negative session", "dashboard.SessionTTL", func(c *Config) { c.SessionTTL = -1 }},
		{"negative retention", "dashboard.InboxRetention", func(c *Config) { c.InboxRetention = -1 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig(t, full()).Config
			tt.change(&cfg)
			_, err := New(full(), cfg)
			var invalid *waybill.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != tt.want {
				t.Errorf("New() = %v, want an error about %s", err, tt.want)
			}
		})
	}
	var invalid *waybill.InvalidError
	if _, err := New(nil, testConfig(t, full()).Config); !errors.As(err, &invalid) || invalid.Field != "dashboard.store" {
		t.Errorf("New() = %v, want an error about dashboard.store", err)
	}
}

// TestNew_WhatAStoreIs: what a store is not is not shown, and payloads are hidden if nobody can write down who looks at them.
func TestNew_WhatAStoreIs(t *testing.T) {
	t.Parallel()
	f := full()
	for _, tt := range []struct {
		store Store
		want  int
	}{{f, http.StatusOK}, {struct{ Store }{f}, http.StatusNotFound}} {
		d, err := New(tt.store, testConfig(t, f).Config)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/replays", "/relays", "/schedules", "/sagas"} {
			if w := (asked{path: path, token: secrets["seer"]}).send(d); w.Code != tt.want {
				t.Errorf("%s of %T: status %d, want %d", path, tt.store, w.Code, tt.want)
			}
		}
		w := asked{path: "/dead/1", token: secrets["seer"]}.send(d)
		if reveals := strings.Contains(w.Body.String(), "reveal"); w.Code != http.StatusOK || reveals != (tt.want == http.StatusOK) {
			t.Errorf("a letter of %T: status %d, its payload can be revealed: %t", tt.store, w.Code, reveals)
		}
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	for _, f := range []*fake{full(), {}} {
		d := newDashboard(t, testConfig(t, f))
		for _, path := range views {
			w := asked{path: path, token: secrets["operator"]}.send(d)
			if w.Code != http.StatusOK && (len(f.letters) > 0 || w.Code != http.StatusNotFound) {
				t.Errorf("%s: status %d", path, w.Code)
			}
			checkHTML(t, path, w.Body.String())
			if n := strings.Count(w.Body.String(), "<h1"); n != 1 {
				t.Errorf("%s: %d headings of the first level, want 1", path, n)
			}
			if strings.Contains(w.Body.String(), "secret-") {
				t.Errorf("%s: shows a payload or header value that nobody asked for", path)
			}
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, testConfig(t, full()))
	want := map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
			"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		"X-Content-Type-Options": "nosniff",
		"Referrer-Policy":        "no-referrer",
		"Cache-Control":          "no-store",
	}
	for _, a := range []asked{{path: "/", token: secrets["reader"]}, {path: "/"}, {path: "/login"}, {path: "/nothing/there"}, {path: "/dead//1"}, {method: "POST", path: "/dead/1/requeue"}} {
		w := a.send(d)
		for name, value := range want {
			if got := w.Header().Get(name); got != value {
				t.Errorf("%s %s: %s is %q, want %q", a.method, a.path, name, got, value)
			}
		}
	}
}

func TestNobody_SeesOrChangesAnything(t *testing.T) {
	t.Parallel()
	f := full()
	d := newDashboard(t, testConfig(t, f))
	for _, token := range []string{"", "wrong-0123456789abcdef"} {
		for i, a := range everyRequest(token) {
			a.from = fmt.Sprintf("198.51.100.%d:5000", i) // one address would soon be slowed down
			w := a.send(d)
			if w.Code != http.StatusUnauthorized {
				t.Errorf("%s %s: status %d, want 401", a.method, a.path, w.Code)
			}
			if body := w.Body.String(); strings.Contains(body, "orders") || strings.Contains(body, "m1") && !strings.Contains(a.path, "m1") {
				t.Errorf("%s %s: shows data", a.method, a.path)
			}
		}
	}
	if len(f.changes) > 0 || len(f.entries) > 1 {
		t.Errorf("changes = %v", f.changes)
	}
}

func everyRequest(token string) []asked {
	var list []asked
	for _, path := range views {
		list = append(list, asked{method: http.MethodGet, path: path, token: token})
	}
	for _, path := range changes {
		list = append(list, asked{method: http.MethodPost, path: path, token: token, form: formFor(path)})
	}
	return list
}

func TestRoles(t *testing.T) {
	t.Parallel()
	allowed := map[string][]string{
		"reader":   {},
		"operator": {"/dead/selected", "/dead/1/requeue", "/dead/1/resolve", "/replays", "/replays/7/cancel", "/schedules/pause", "/schedules/resume", "/schedules/run-now", "/sagas/resume"},
		"admin": {"/dead/selected", "/dead/1/requeue", "/dead/1/resolve", "/dead/1/discard", "/dead/1/restore", "/dead/1/delete", "/replays", "/replays/7/cancel",
			"/schedules/pause", "/schedules/resume", "/schedules/run-now", "/schedules/remove", "/schedules/cancel", "/sagas/resume", "/sagas/compensate"},
		"seer": changes,
	}
	for role, paths := range allowed {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			f := full()
			d := newDashboard(t, testConfig(t, f))
			may := strings.Join(paths, " ")
			for _, path := range changes {
				w := asked{method: http.MethodPost, path: path, token: secrets[role], form: formFor(path)}.send(d)
				if want := strings.Contains(may, path); (w.Code < 400) != want || !want && w.Code != http.StatusForbidden {
					t.Errorf("POST %s: status %d, allowed: %v", path, w.Code, want)
				}
			}
			for _, change := range f.changes {
				if !strings.Contains(change, " by "+role+": because") {
					t.Errorf("%q does not name %s and the reason", change, role)
				}
			}
			if role == "reader" && len(f.changes) > 0 {
				t.Errorf("a reader has changed something: %v", f.changes)
			}
		})
	}
}

// browser keeps a session as a browser does.
type browser struct {
	d      http.Handler
	cookie *http.Cookie
	from   string // address, if it matters
}

var formField = regexp.MustCompile(`name="form" value="([0-9a-f]+)"`)

func signIn(t *testing.T, d http.Handler, secret string) *browser {
	t.Helper()
	w := asked{method: http.MethodPost, path: "/login", form: url.Values{"token": {secret}, "next": {"/dead"}}}.send(d)
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || len(cookies) != 1 || w.Header().Get("Location") != "./dead" {
		t.Fatalf("POST /login: status %d, location %q, cookies %v", w.Code, w.Header().Get("Location"), cookies)
	}
	return &browser{d: d, cookie: cookies[0]}
}

func (b *browser) send(a asked) *httptest.ResponseRecorder {
	if a.header == nil {
		a.header = make(map[string]string)
	}
	a.from = b.from
	a.header["Cookie"] = b.cookie.Name + "=" + b.cookie.Value
	return a.send(b.d)
}

// formToken takes the token out of a page.
func (b *browser) formToken(t *testing.T, path string) string {
	t.Helper()
	m := formField.FindStringSubmatch(b.send(asked{path: path}).Body.String())
	if m == nil {
		t.Fatalf("%s has no form token", path)
	}
	return m[1]
}

func TestSession(t *testing.T) {
	t.Parallel()
	f := full()
	d := newDashboard(t, testConfig(t, f))
	b := signIn(t, d, secrets["operator"])
	if c := b.cookie; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "" || len(c.Value) < 20 {
		t.Errorf("cookie is %v", c)
	}
	form := url.Values{"why": {"fixed"}, "form": {b.formToken(t, "/dead/1")}}
	w := b.send(asked{method: http.MethodPost, path: "/dead/1/requeue", form: form})
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "./../../messages?done=requeue&id=m1&of=dead+letter" {
		t.Errorf("requeue: status %d, location %q", w.Code, w.Header().Get("Location"))
	}
	if len(f.changes) != 1 || f.changes[0] != "requeue 1 by operator: fixed" {
		t.Errorf("changes = %v", f.changes)
	}
	if w := b.send(asked{method: http.MethodPost, path: "/logout", form: form}); w.Code != http.StatusSeeOther {
		t.Errorf("logout: status %d", w.Code)
	}
	if w := b.send(asked{path: "/"}); w.Code != http.StatusUnauthorized {
		t.Errorf("after logout: status %d, want 401", w.Code)
	}
}

func TestSession_Ends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(t, full())
		cfg.SessionTTL = time.Hour
		b := signIn(t, newDashboard(t, cfg), secrets["reader"])
		time.Sleep(time.Hour - time.Second)
		if w := b.send(asked{path: "/"}); w.Code != http.StatusOK {
			t.Errorf("before its end: status %d", w.Code)
		}
		time.Sleep(2 * time.Second)
		if w := b.send(asked{path: "/"}); w.Code != http.StatusUnauthorized {
			t.Errorf("after its end: status %d, want 401", w.Code)
		}
	})
}

func TestCrossSite(t *testing.T) {
	t.Parallel()
	f := full()
	d := newDashboard(t, testConfig(t, f))
	b := signIn(t, d, secrets["operator"])
	other := signIn(t, d, secrets["operator"])
	good := b.formToken(t, "/dead/1")
	tests := []struct {
		name, token string
		header      map[string]string
	}{
		{"another site", good, map[string]string{"Sec-Fetch-Site": "cross-site"}},
		{"a sibling of the site", good, map[string]string{"Sec-Fetch-Site": "same-site"}},
		{"an older browser", good, map[string]string{"Origin": "https://evil.example"}},
		{"no form token", "", nil},
		{"a guessed form token", strings.Repeat("0", 64), nil},
		{"that of another session", other.formToken(t, "/dead/1"), nil},
	}
	for _, tt := range tests {
		w := b.send(asked{method: http.MethodPost, path: "/dead/1/requeue", form: url.Values{"form": {tt.token}}, header: tt.header})
		if w.Code != http.StatusForbidden || len(f.changes) > 0 {
			t.Errorf("%s: status %d, changes %v", tt.name, w.Code, f.changes)
		}
	}
	w := asked{method: http.MethodPost, path: "/login", form: url.Values{"token": {secrets["reader"]}}, header: map[string]string{"Sec-Fetch-Site": "cross-site"}}.send(d)
	if w.Code != http.StatusForbidden || len(w.Result().Cookies()) > 0 {
		t.Errorf("signing in from another site: status %d, cookies %v", w.Code, w.Result().Cookies())
	}
}

func TestLogin_LeadsNowhereElse(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, testConfig(t, full()))
	for next, want := range map[string]string{
		"/dead/1?x=y": "./dead/1?x=y", "": "./", "https://evil.example/": "./", "//evil.example": "./", "/\\evil.example": "./", "dead": "./",
		"/x\r\nSet-Cookie: a=b": "./", "javascript:alert(1)": "./",
	} {
		w := asked{method: http.MethodPost, path: "/login", form: url.Values{"token": {secrets["reader"]}, "next": {next}}}.send(d)
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("next %q leads to %q, want %q", next, got, want)
		}
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("/admin/waybill/", http.StripPrefix("/admin/waybill", newDashboard(t, testConfig(t, full()))))
	link := regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	seen := map[string]bool{"/admin/waybill/": true}
	queue := []string{"/admin/waybill/"}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		w := asked{path: at, token: secrets["seer"]}.send(mux)
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d", at, w.Code)
		}
		base, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(w.Body.String(), -1) {
			if m[1] == documentation {
				continue
			}
			to, err := base.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
			if err != nil || !strings.HasPrefix(to.Path, "/admin/waybill/") {
				t.Errorf("%s leads to %q, outside of the prefix", at, m[1])
				continue
			}
			to.Fragment = ""
			isForm := strings.Contains(m[0], "action=") || strings.HasSuffix(to.Path, "/logout")
			if !seen[to.String()] && !isForm && len(seen) < 200 {
				seen[to.String()] = true
				queue = append(queue, to.String())
			}
		}
	}
	if len(seen) < 15 {
		t.Errorf("only %d pages found: %v", len(seen), seen)
	}
}

func TestFailures_TellNothing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		fake   *fake
		status int
	}{
		{"the store has failed", &fake{letters: full().letters, fail: errors.New("relation S3CR3T does not exist")}, http.StatusInternalServerError},
		{"the store is down", &fake{letters: full().letters, fail: waybill.UnavailableError(errors.New("dial S3CR3T"))}, http.StatusServiceUnavailable},
		{"the store is not migrated", &fake{letters: full().letters, fail: fmt.Errorf("S3CR3T: %w", waybill.ErrNotMigrated)}, http.StatusServiceUnavailable},
	}
	for _, tt := range tests {
		d := newDashboard(t, testConfig(t, tt.fake))
		for _, path := range []string{"/messages?id=m1", "/dead", "/dead/list", "/dead/1", "/replays", "/relays", "/audit", "/messages?status=", "/consumers", "/sagas", stuckPath} {
			w := asked{path: path, token: secrets["seer"]}.send(d)
			if w.Code != tt.status || strings.Contains(w.Body.String(), "S3CR3T") {
				t.Errorf("%s, %s: status %d, want %d without the error's text", tt.name, path, w.Code, tt.status)
			}
			if says := strings.Contains(w.Body.String(), "Run waybill migrate."); says != errors.Is(tt.fake.fail, waybill.ErrNotMigrated) {
				t.Errorf("%s, %s: the page says to migrate: %t", tt.name, path, says)
			}
		}
		w := asked{path: "/", token: secrets["seer"]}.send(d)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "problem") || strings.Contains(w.Body.String(), "S3CR3T") {
			t.Errorf("%s: the overview has status %d; want what could be read, and that the rest could not", tt.name, w.Code)
		}
	}
	w := asked{path: "/", token: secrets["seer"]}.send(newDashboard(t, testConfig(t, &fake{panics: true})))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "goroutine") || strings.Contains(w.Body.String(), "nil pointer") {
		t.Errorf("after a panic: status %d, %s", w.Code, w.Body)
	}
}

func TestOverview_CountsSeldom(t *testing.T) {
	t.Parallel()
	countsSeldom(t, "/", func(f *fake) int { return f.counted })
}

// countsSeldom looks at a page 21 times, the last one later, and wants the store to have counted twice.
func countsSeldom(t *testing.T, path string, counted func(f *fake) int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := full()
		d := newDashboard(t, testConfig(t, f))
		for range 20 {
			asked{path: path, token: secrets["reader"]}.send(d)
		}
		time.Sleep(freshFor + time.Second)
		asked{path: path, token: secrets["reader"]}.send(d)
		if n := counted(f); n != 2 {
			t.Errorf("the store has counted %d times in 21 views of %s, want 2", n, path)
		}
	})
}

func TestLetters_Pages(t *testing.T) {
	t.Parallel()
	f := full()
	for n := int64(4); n <= 120; n++ {
		l := f.letters[0]
		l.Number = n
		f.letters = append(f.letters, l)
	}
	d := newDashboard(t, testConfig(t, f))
	row := regexp.MustCompile(`<td class="number"[^>]*><a href="[^"]*dead/(\d+)"`)
	next := regexp.MustCompile(`rel="next" href="\./\.\./(dead/list[^"]*)"`)
	var got []string
	for path := "/dead/list?fingerprint=f0"; path != ""; {
		body := asked{path: path, token: secrets["reader"]}.send(d).Body.String()
		for _, m := range row.FindAllStringSubmatch(body, -1) {
			got = append(got, m[1])
		}
		path = ""
		if m := next.FindStringSubmatch(body); m != nil {
			path = "/" + strings.ReplaceAll(m[1], "&amp;", "&")
		}
		if f.filter.Fingerprint != "f0" {
			t.Fatalf("the filter is lost: %+v", f.filter)
		}
	}
	if len(got) != 120 || got[0] != "120" || got[119] != "1" {
		t.Errorf("the pages show %d letters, want 120 from 120 to 1", len(got))
	}
}

// TestLetters_Text: a text needs nothing with it, and a replay of what it finds is not offered.
func TestLetters_Text(t *testing.T) {
	t.Parallel()
	f := full()
	cfg := testConfig(t, f)
	for query, offered := range map[string]bool{"text=customer": false, "text=customer&fingerprint=f0": true} {
		w := asked{path: "/dead/list?" + query, token: secrets["operator"]}.send(newDashboard(t, cfg))
		if w.Code != http.StatusOK || f.filter.Text != "customer" {
			t.Errorf("%s: status %d, the store was asked for %+v", query, w.Code, f.filter)
		}
		if got := strings.Contains(w.Body.String(), "Replay all that match"); got != offered {
			t.Errorf("%s: replay offered = %v, want %v", query, got, offered)
		}
	}
	asked{path: "/dead/list?key=ann&correlation=flow-1", token: secrets["reader"]}.send(newDashboard(t, cfg))
	if f.filter.Key != "ann" || f.filter.CorrelationID != "flow-1" {
		t.Errorf("the store was asked for %+v", f.filter)
	}
}

func TestFilter_SurvivesTheURL(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	want := deadletter.Filter{
		Origin: deadletter.FromConsumer, Consumer: "a&b", Topic: "t/1", Type: "x y", Tenant: "ü", Fingerprint: "f", MessageID: "<m>", Key: "k=1", CorrelationID: "c+1",
		State: deadletter.Resolved, Since: since, Until: since.Add(time.Hour + time.Second), Text: `"q"`,
	}
	for _, newest := range []bool{true, false} {
		want.Newest = newest
		q, err := url.ParseQuery(writeFilter(want).Encode())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readFilter(q); err != nil || got != want {
			t.Errorf("readFilter() = %+v, %v, want %+v", got, err, want)
		}
	}
	d := newDashboard(t, testConfig(t, full()))
	for _, query := range []string{"since=yesterday", "state=gone", "after=x", "origin=me"} {
		w := asked{path: "/dead/list?" + query, token: secrets["reader"]}.send(d)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "can&#39;t be answered") && !strings.Contains(w.Body.String(), "can't be answered") {
			t.Errorf("%s: status %d", query, w.Code)
		}
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	f := full()
	d := newDashboard(t, testConfig(t, f))
	w := asked{path: "/replays/new?fingerprint=f0&order=oldest&after=2", token: secrets["operator"]}.send(d)
	if w.Code != http.StatusOK || f.filter != (deadletter.Filter{Fingerprint: "f0"}) {
		t.Errorf("preview: status %d, filter %+v", w.Code, f.filter)
	}
	form := url.Values{"filter": {"fingerprint=f0"}, "rate": {"20"}, "ratio": {"30"}, "why": {"broker is back"}}
	w = asked{method: http.MethodPost, path: "/replays", token: secrets["operator"], form: form}.send(d)
	want := deadletter.Plan{Filter: deadletter.Filter{Fingerprint: "f0"}, Rate: 20, MaxFailureRatio: 0.3}
	if w.Header().Get("Location") != "./replays/7?done=started" || f.replay.Plan != want || f.replay.Act != (deadletter.Act{By: "operator", Why: "broker is back"}) {
		t.Errorf("start: status %d, replay %+v", w.Code, f.replay)
	}
	for field, value := range map[string]string{"rate": "NaN", "ratio": "0", "filter": "state=resolved"} {
		bad := url.Values{"filter": {"fingerprint=f0"}, "rate": {"20"}, "ratio": {"30"}}
		bad.Set(field, value)
		before := len(f.changes)
		w := asked{method: http.MethodPost, path: "/replays", token: secrets["operator"], form: bad}.send(d)
		if w.Code != http.StatusBadRequest || len(f.changes) > before {
			t.Errorf("%s=%s: status %d, want 400 and nothing started", field, value, w.Code)
		}
	}
}

func TestSelected(t *testing.T) {
	t.Parallel()
	f := full()
	d := newDashboard(t, testConfig(t, f))
	form := url.Values{"number": {"1", "3"}, "do": {"resolve"}, "why": {"by hand"}, "filter": {"fingerprint=f0"}}
	w := asked{method: http.MethodPost, path: "/dead/selected", token: secrets["operator"], form: form}.send(d)
	if fmt.Sprint(f.changes) != "[resolve 1 by operator: by hand resolve 3 by operator: by hand]" {
		t.Errorf("changes = %v", f.changes)
	}
	if got := w.Header().Get("Location"); got != "./../dead/list?changed=2&done=selected&fingerprint=f0&left=0" {
		t.Errorf("location %q", got)
	}
}
