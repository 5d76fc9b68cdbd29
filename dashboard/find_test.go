package dashboard

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-go/waybill/inspect"
)

func TestFind(t *testing.T) {
	t.Parallel()
	one := full()
	one.messages, one.letters = nil, one.letters[:1]
	none := &fake{}
	many := full()
	for range foundOnPage + 1 {
		many.messages = append(many.messages, inspect.MessageState{ID: "more", Status: inspect.Pending})
	}
	for name, tt := range map[string]struct {
		store    *fake
		query    string
		status   int
		location string
		shows    []string
	}{
		"nothing asked":  {store: full(), query: "q=+", status: http.StatusSeeOther, location: "./messages"},
		"an id":          {store: full(), query: "q=+m1+", status: http.StatusSeeOther, location: "./messages?id=m1"},
		"a text":         {store: full(), query: "q=flow", status: http.StatusOK, shows: []string{`href="./messages?id=m4"`, `href="./dead/1"`}},
		"one letter":     {store: one, query: "q=timed+out", status: http.StatusSeeOther, location: "./dead/1"},
		"more than fits": {store: many, query: "q=flow%26x", status: http.StatusOK, shows: []string{"There are more", "text=flow%26x"}},
		"nothing found":  {store: none, query: "q=%3Cb%3E", status: http.StatusOK, shows: []string{"&lt;b&gt;", "No message"}},
		"not text":       {store: full(), query: "q=%ff", status: http.StatusBadRequest},
		"a long text":    {store: full(), query: "q=" + strings.Repeat("x", 4000), status: http.StatusOK},
	} {
		w := asked{path: "/find?" + tt.query, token: secrets["reader"]}.send(newDashboard(t, testConfig(t, tt.store)))
		if w.Code != tt.status || w.Header().Get("Location") != tt.location {
			t.Errorf("%s: status %d to %q, want %d to %q", name, w.Code, w.Header().Get("Location"), tt.status, tt.location)
		}
		for _, text := range tt.shows {
			if !strings.Contains(w.Body.String(), text) {
				t.Errorf("%s: the page lacks %q:\n%s", name, text, w.Body)
			}
		}
	}
	if last := none.searches[len(none.searches)-1]; last.Tenant != "<b>" || last.Text != "" {
		t.Errorf("at last it asks for %+v, want the messages of the tenant", last)
	}
}

// TestTheme shows that the theme of the cookie reaches the page, and nothing else that a cookie says.
func TestTheme(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, testConfig(t, full()))
	for cookie, want := range map[string]bool{"waybill_theme=dark": true, `waybill_theme="><script>`: false, "waybill_theme=": false} {
		body := asked{path: "/messages", token: secrets["reader"], header: map[string]string{"Cookie": cookie}}.send(d).Body.String()
		if got := strings.Contains(body, "data-theme="); got != want || strings.Contains(body, "><script>") {
			t.Errorf("with %s the page has a theme: %v, want %v", cookie, got, want)
		}
	}
}

// TestFindings_Lead shows that a finding leads to the page on which it can be acted upon.
func TestFindings_Lead(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, r := range newDashboard(t, testConfig(t, full())).list() {
		pages = append(pages, strings.ReplaceAll(r.pattern, "{number}", "7"))
	}
	for _, subject := range []string{"relays", "lanes", "pending", "dead letters", "unroutable", "schedules", "scheduled", "sagas", "replay 7"} {
		path, _, _ := strings.Cut(cure(subject), "?")
		if !slices.Contains(pages, "GET /"+path) {
			t.Errorf("%s leads to %q, which is no page", subject, path)
		}
	}
	if got := cure("parts"); got != "" {
		t.Errorf("parts lead to %q, want no page", got)
	}
}
