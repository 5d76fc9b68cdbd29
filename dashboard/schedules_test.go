package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestSchedules(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, testConfig(t, full()))
	body := asked{path: "/schedules", token: secrets["reader"]}.send(d).Body.String()
	for _, want := range []string{
		"nightly &lt;b&gt;", "late by 3m", ">active<", ">paused<", ">ended<", "30 4 * * * UTC", "schedules/one?name=nightly%20%3cb%3e",
		"schedules/one?id=later-0", "messages?id=later-1\"", "later-49", "place=2026-03-01T13%3A00%3A00Z%2C49",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(body, "later-50") {
		t.Error("the first page has more messages than fit")
	}
	body = asked{path: "/schedules?place=2026-03-01T13:00:00Z,49", token: secrets["reader"]}.send(d).Body.String()
	if !strings.Contains(body, "later-50") || strings.Contains(body, "later-49") {
		t.Error("the second page does not begin behind the first one")
	}
	for path, want := range map[string]int{
		"/schedules?place=soon": 400, "/schedules?place=2026-03-01T13:00:00Z": 400, "/schedules/one?name=unknown": 404, "/schedules/one?id=later-1": 404, "/schedules/one": 404,
	} {
		if w := (asked{path: path, token: secrets["reader"]}).send(d); w.Code != want {
			t.Errorf("%s: status %d, want %d", path, w.Code, want)
		}
	}
}

func TestSchedules_Change(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path  string
		form  url.Values
		leads string
		want  string // what is done; nothing if it is empty
	}{
		{"/schedules/pause", url.Values{"name": {"nightly <b>"}}, "./../schedules/one?done=pause&name=nightly+%3Cb%3E&of=schedule", "schedule_pause nightly <b>"},
		{"/schedules/pause", url.Values{"name": {"paused"}}, "./../schedules/one?name=paused&of=schedule&undone=pause", ""},
		{"/schedules/resume", url.Values{"name": {"paused"}}, "./../schedules/one?done=resume&name=paused&of=schedule", "schedule_resume paused"},
		{"/schedules/resume", url.Values{"name": {"ended"}}, "./../schedules/one?name=ended&of=schedule&undone=resume", ""},
		{"/schedules/run-now", url.Values{"name": {"ended"}}, "./../messages?done=run-now&id=ended%402026-03-01T12%3A00%3A00.000000Z&of=schedule", "schedule_run ended"},
		{"/schedules/remove", url.Values{"name": {"ended"}}, "./../schedules?done=remove&of=schedule", "schedule_remove ended"},
		{"/schedules/cancel", url.Values{"id": {"later-0"}}, "./../schedules?done=cancel&of=message", "schedule_cancel "},
	} {
		f := full()
		tt.form.Set("why", "because")
		b := signIn(t, newDashboard(t, testConfig(t, f)), secrets["seer"])
		tt.form.Set("form", b.formToken(t, "/schedules/one?id=later-0"))
		w := b.send(asked{method: http.MethodPost, path: tt.path, form: tt.form})
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != tt.leads {
			t.Errorf("%s: status %d, leads to %q, want %q", tt.path, w.Code, w.Header().Get("Location"), tt.leads)
		}
		if got := strings.Join(f.changes, "; "); tt.want == "" && got != "" || tt.want != "" && got != tt.want+" by seer: because" {
			t.Errorf("%s: changes = %q, want %q", tt.path, got, tt.want)
		}
		if to := strings.TrimPrefix(tt.leads, "./.."); !strings.Contains(b.send(asked{path: to}).Body.String(), "class=\"notice\"") {
			t.Errorf("%s: %s does not say what was done", tt.path, to)
		}
	}
}

// TestSchedules_Overtaken: what was changed by somebody else meanwhile is reported.
func TestSchedules_Overtaken(t *testing.T) {
	t.Parallel()
	f := full()
	f.overtaken = true
	d := newDashboard(t, testConfig(t, f))
	w := asked{method: http.MethodPost, path: "/schedules/pause", token: secrets["operator"], form: url.Values{"name": {"nightly <b>"}}}.send(d)
	if w.Code != http.StatusConflict {
		t.Errorf("status %d, want 409", w.Code)
	}
}

func TestSchedules_Reveal(t *testing.T) {
	t.Parallel()
	f := full()
	d := newDashboard(t, testConfig(t, f))
	for name, value := range map[string]string{"name": "paused", "id": "later-0"} {
		w := asked{method: http.MethodPost, path: "/schedules/reveal", token: secrets["seer"], form: url.Values{name: {value}}}.send(d)
		if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "secret-amount") || !strings.Contains(body, "secret-user") {
			t.Errorf("status %d, want payload and headers", w.Code)
		}
		e := f.entries[len(f.entries)-1]
		if e.Action != "reveal" || e.By != "seer" || e.Detail+e.MessageID != value {
			t.Errorf("entry = %+v, want the look at %s", e, value)
		}
	}
}

// TestSchedules_None: a store that keeps no schedules has no such page.
func TestSchedules_None(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, full())
	cfg.schedules = nil
	d := newDashboard(t, cfg)
	w := asked{path: "/schedules", token: secrets["admin"]}.send(d)
	if w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), `href="./schedules"`) {
		t.Errorf("status %d, want 404 and no entry in the navigation", w.Code)
	}
}
