package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestNoText: what no store can keep is refused on each page and form, whatever parameter holds it, and asks
// no store.
func TestNoText(t *testing.T) {
	t.Parallel()
	parameters := []string{"id", "message", "status", "topic", "key", "correlation", "consumer", "type", "tenant", "fingerprint", "text", "origin", "name", "saga", "position", "order", "unknown"}
	d := newDashboard(t, testConfig(t, full()))
	for i, bad := range []string{"a\x00b", "\xed\xa0\x80"} {
		for _, view := range views {
			path, _, _ := strings.Cut(view, "?")
			for _, name := range parameters[i*8 : i*8+9] {
				w := asked{path: path + "?" + url.Values{name: {"x", bad}}.Encode(), token: secrets["seer"]}.send(d)
				if w.Code != http.StatusBadRequest {
					t.Errorf("GET %s with %s=%q: status %d, want 400", path, name, bad, w.Code)
				}
			}
		}
		for _, path := range changes {
			for name := range anyForm {
				if name == "payload" {
					continue // any bytes
				}
				form := formFor(path)
				form.Set(name, bad)
				w := asked{method: http.MethodPost, path: path, token: secrets["seer"], form: form}.send(d)
				if w.Code != http.StatusBadRequest {
					t.Errorf("POST %s with %s=%q: status %d, want 400", path, name, bad, w.Code)
				}
			}
		}
	}
}
