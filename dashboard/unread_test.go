package dashboard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// unread is a body that counts what is read of it.
type unread struct{ n int }

func (u *unread) Read(p []byte) (int, error) { u.n += len(p); return len(p), nil }
func (u *unread) Close() error               { return nil }

// TestUnreadForms: of what nobody sends no body is read, and of the form for signing in a little.
func TestUnreadForms(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, testConfig(t, full()))
	for _, path := range append([]string{"/login", "/logout", "/nothing"}, changes...) {
		body := &unread{}
		r := httptest.NewRequest(http.MethodPost, path, body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		limit, status := 0, http.StatusUnauthorized
		if path == "/login" {
			limit, status = 2*loginBody, http.StatusBadRequest
		}
		if body.n > limit || w.Code != status {
			t.Errorf("POST %s: status %d, %d bytes read, want %d and at most %d", path, w.Code, body.n, status, limit)
		}
	}
}

// TestUnreadForms_NotAllowed: who may not do something sends no large form for it.
func TestUnreadForms_NotAllowed(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, testConfig(t, full()))
	body := &unread{}
	r := httptest.NewRequest(http.MethodPost, "/dead/1/save", body)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+secrets["reader"])
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if body.n > 0 || w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "needs the role admin") {
		t.Errorf("status %d, %d bytes read: %s", w.Code, body.n, w.Body)
	}
}
