package dashboard

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// TestSession_Revoked: a session ends with its token, and may do what its token may now.
func TestSession_Revoked(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, full())
	access := cfg.Access.(*Tokens)
	d := newDashboard(t, cfg)
	admin, operator := signIn(t, d, secrets["admin"]), signIn(t, d, secrets["operator"])
	demoted, err := NewToken("admin", secrets["admin"], Grant{Role: Reader})
	if err != nil {
		t.Fatal(err)
	}
	if err := access.Set(demoted); err != nil {
		t.Fatal(err)
	}
	if w := operator.send(asked{path: "/"}); w.Code != http.StatusUnauthorized {
		t.Errorf("whose token is removed: status %d, want 401", w.Code)
	}
	if w := (asked{path: "/", token: secrets["operator"]}).send(d); w.Code != http.StatusUnauthorized {
		t.Errorf("a token that is removed: status %d, want 401", w.Code)
	}
	form := url.Values{"why": {"x"}, "form": {admin.formToken(t, "/dead/1")}}
	if w := admin.send(asked{method: http.MethodPost, path: "/dead/1/requeue", form: form}); w.Code != http.StatusForbidden {
		t.Errorf("who was made a reader requeues: status %d, want 403", w.Code)
	}
	if err := access.Set(); err == nil {
		t.Error("Set() of no tokens = nil")
	}
	if w := admin.send(asked{path: "/"}); w.Code != http.StatusOK {
		t.Errorf("after tokens that were refused: status %d, want 200", w.Code)
	}
}

// TestSession_Sibling: a cookie of the same name that another host of the domain has set signs nobody out.
func TestSession_Sibling(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, testConfig(t, full()))
	b := signIn(t, d, secrets["reader"])
	good := b.cookie.Name + "=" + b.cookie.Value
	bad := b.cookie.Name + "=" + strings.Repeat("A", 26)
	for _, cookies := range []string{bad + "; " + good, good + "; " + bad} {
		if w := (asked{path: "/", header: map[string]string{"Cookie": cookies}}).send(d); w.Code != http.StatusOK {
			t.Errorf("%q: status %d, want 200", cookies, w.Code)
		}
	}
}

var sessionField = regexp.MustCompile(`name="session" value="([0-9a-f]+)"`)

// TestSessions_Ended: a person sees and ends the sessions of its own, an admin everybody's.
func TestSessions_Ended(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, testConfig(t, full()))
	reader, other, admin := signIn(t, d, secrets["reader"]), signIn(t, d, secrets["operator"]), signIn(t, d, secrets["admin"])
	seen := func(b *browser) []string {
		w := b.send(asked{path: "/sessions"})
		checkHTML(t, "/sessions", w.Body.String())
		if strings.Contains(w.Body.String(), b.cookie.Value) {
			t.Error("the page shows the id of a session")
		}
		var ids []string
		for _, m := range sessionField.FindAllStringSubmatch(w.Body.String(), -1) {
			ids = append(ids, m[1])
		}
		return ids
	}
	own, all := seen(reader), seen(admin)
	if len(own) != 1 || len(all) != 3 {
		t.Fatalf("a reader sees %d sessions and an admin %d, want 1 and 3", len(own), len(all))
	}
	end := func(b *browser, id string) int {
		form := url.Values{"session": {id}, "form": {b.formToken(t, "/sessions")}}
		return b.send(asked{method: http.MethodPost, path: "/sessions/end", form: form}).Code
	}
	if got := end(other, own[0]); got != http.StatusNotFound {
		t.Errorf("somebody ends another one's: status %d, want 404", got)
	}
	if got := end(admin, own[0]); got != http.StatusSeeOther {
		t.Errorf("an admin ends it: status %d, want 303", got)
	}
	if w := reader.send(asked{path: "/"}); w.Code != http.StatusUnauthorized {
		t.Errorf("afterwards: status %d, want 401", w.Code)
	}
	if w := admin.send(asked{path: "/"}); w.Code != http.StatusOK {
		t.Errorf("the admin: status %d, want 200", w.Code)
	}
	if w := (asked{path: "/sessions"}).send(d); w.Code != http.StatusUnauthorized {
		t.Errorf("nobody: status %d, want 401", w.Code)
	}
}
