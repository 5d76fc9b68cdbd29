package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/saga"
)

const stuckPath = "/sagas/instance?saga=order&key=17&tenant=default"

func namesOf(key string) url.Values {
	return url.Values{"saga": {"order"}, "key": {key}, "tenant": {"default"}, "why": {"because"}}
}

func TestSagas_Filter(t *testing.T) {
	t.Parallel()
	f := full()
	d := newDashboard(t, testConfig(t, f))
	w := asked{path: "/sagas?saga=o%26r&key=%3C1%3E&tenant=t&status=stuck&before=9", token: secrets["reader"]}.send(d)
	want := saga.Filter{Saga: "o&r", Key: "<1>", Tenant: "t", Status: saga.Stuck, Before: 9, Limit: instancesOnPage + 1}
	if w.Code != http.StatusOK || f.sagaFilter != want {
		t.Errorf("status %d, filter %+v, want %+v", w.Code, f.sagaFilter, want)
	}
	checkHTML(t, "/sagas", w.Body.String())
	for _, query := range []string{"status=lost", "before=x"} {
		w := asked{path: "/sagas?" + query, token: secrets["reader"]}.send(d)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "can&#39;t be answered") && !strings.Contains(w.Body.String(), "can't be answered") {
			t.Errorf("%s: status %d", query, w.Code)
		}
	}
}

func TestSagas_Pages(t *testing.T) {
	t.Parallel()
	f := full()
	for n := int64(4); n <= 120; n++ {
		in := f.instances[0]
		in.Number = n
		f.instances = append(f.instances, in)
	}
	d := newDashboard(t, testConfig(t, f))
	next := regexp.MustCompile(`rel="next" href="\./(sagas[^"]*)"`)
	rows := 0
	for path := "/sagas?status=stuck"; path != ""; {
		body := asked{path: path, token: secrets["reader"]}.send(d).Body.String()
		rows += strings.Count(body, "sagas/instance?")
		path = ""
		if m := next.FindStringSubmatch(body); m != nil {
			path = "/" + strings.ReplaceAll(m[1], "&amp;", "&")
		}
		if f.sagaFilter.Status != saga.Stuck {
			t.Fatalf("the filter is lost: %+v", f.sagaFilter)
		}
	}
	if rows != 118 {
		t.Errorf("the pages show %d instances, want 118", rows)
	}
}

// Counting reads every instance, so that it is done for all who look together.
func TestSagas_CountsSeldom(t *testing.T) {
	t.Parallel()
	countsSeldom(t, "/sagas", func(f *fake) int { return f.sagaCounted })
}

func TestInstance_Timeline(t *testing.T) {
	t.Parallel()
	f := full()
	d := newDashboard(t, testConfig(t, f))
	body := asked{path: stuckPath, token: secrets["reader"]}.send(d).Body.String()
	for _, want := range []string{`<li class="stuck">`, "placed → <b>pay</b>", "step &lt;pay&gt;", "card &lt;declined&gt;", `messages?id=step-1"`, "shop-1", "no answer"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for len(f.sagaLog) <= changesOnPage {
		f.sagaLog = append(f.sagaLog, saga.Entry{Version: int64(len(f.sagaLog) + 1), Status: saga.Running, To: "pay"})
	}
	body = asked{path: stuckPath, token: secrets["reader"]}.send(d).Body.String()
	if got := strings.Count(body, "<li class="); got != changesOnPage || !strings.Contains(body, "&amp;after=200") {
		t.Errorf("the first page has %d changes, or no link to the next one", got)
	}
	body = asked{path: stuckPath + "&after=200", token: secrets["reader"]}.send(d).Body.String()
	if got := strings.Count(body, "<li class="); got != 1 || strings.Contains(body, `rel="next"`) {
		t.Errorf("the last page has %d changes, or a link to one more", got)
	}
}

// What is offered is what the role may do and the instance can.
func TestInstance_Offers(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, testConfig(t, full()))
	for _, tt := range []struct {
		role, key string
		offers    []string
	}{
		{"reader", "17", nil},
		{"reader", "18", nil},
		{"operator", "17", []string{"resume"}},
		{"operator", "18", nil},
		{"admin", "17", []string{"resume"}},
		{"admin", "18", []string{"compensate"}},
		{"admin", "19", nil},
		{"seer", "19", []string{"reveal"}},
	} {
		body := asked{path: "/sagas/instance?saga=order&key=" + tt.key, token: secrets[tt.role]}.send(d).Body.String()
		var got []string
		for _, m := range regexp.MustCompile(`action="\./\.\./sagas/([a-z]+)`).FindAllStringSubmatch(body, -1) {
			got = append(got, m[1])
		}
		if strings.Join(got, " ") != strings.Join(tt.offers, " ") {
			t.Errorf("%s is offered %v for %s, want %v", tt.role, got, tt.key, tt.offers)
		}
	}
}

func TestInstance_Reveal(t *testing.T) {
	t.Parallel()
	f := full()
	d := newDashboard(t, testConfig(t, f))
	w := asked{method: http.MethodPost, path: "/sagas/reveal", token: secrets["seer"], form: namesOf("17")}.send(d)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "secret-amount") || strings.Contains(w.Body.String(), "data-live data-announce") {
		t.Errorf("status %d; want the data, on a page that does not change by itself", w.Code)
	}
	checkHTML(t, "/sagas/reveal", w.Body.String())
	e := f.entries[len(f.entries)-1]
	if e.Action != deadletter.ActReveal || e.By != "seer" || e.Why != "because" || e.Detail != "order 17" {
		t.Errorf("the audit log has %+v", e)
	}
	f.fail = errors.New("the audit log is full")
	w = asked{method: http.MethodPost, path: "/sagas/reveal", token: secrets["seer"], form: namesOf("17")}.send(d)
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret-amount") {
		t.Errorf("status %d; the data is shown though that could not be recorded", w.Code)
	}
}

func TestInstance_Changes(t *testing.T) {
	t.Parallel()
	f := full()
	f.instances[2].Status, f.instances[2].Progress = saga.Running, saga.Progress{} // no steps
	d := newDashboard(t, testConfig(t, f))
	for _, tt := range []struct {
		path, key string
		status    int
		change    string
	}{
		{"/sagas/resume", "17", http.StatusSeeOther, "saga_resume 17 by admin: because"},
		{"/sagas/compensate", "18", http.StatusSeeOther, "saga_compensate 18 by admin: because"},
		{"/sagas/resume", "18", http.StatusConflict, ""},
		{"/sagas/compensate", "17", http.StatusConflict, ""},
		{"/sagas/compensate", "19", http.StatusConflict, ""},
		{"/sagas/resume", "20", http.StatusNotFound, ""},
		{"/sagas/compensate", "\x00", http.StatusBadRequest, ""},
	} {
		before := len(f.changes)
		w := asked{method: http.MethodPost, path: tt.path, token: secrets["admin"], form: namesOf(tt.key)}.send(d)
		if w.Code != tt.status {
			t.Errorf("%s of %q: status %d, want %d", tt.path, tt.key, w.Code, tt.status)
		}
		if got := strings.Join(f.changes[before:], " "); got != tt.change {
			t.Errorf("%s of %q: changes %q, want %q", tt.path, tt.key, got, tt.change)
		}
	}
	w := asked{method: http.MethodPost, path: "/sagas/resume", token: secrets["admin"], form: namesOf("17")}.send(d)
	if got, want := w.Header().Get("Location"), "./../sagas/instance?done=resume&key=17&of=instance&saga=order&tenant=default"; got != want {
		t.Errorf("location %q, want %q", got, want)
	}
	f.overtaken = true
	w = asked{method: http.MethodPost, path: "/sagas/resume", token: secrets["admin"], form: namesOf("17")}.send(d)
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "at the same time") {
		t.Errorf("overtaken: status %d, want 409", w.Code)
	}
	f.overtaken, f.fail = false, waybill.UnavailableError(errors.New("away"))
	w = asked{method: http.MethodPost, path: "/sagas/resume", token: secrets["admin"], form: namesOf("17")}.send(d)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("the store is away: status %d, want 503", w.Code)
	}
}

// Without a store of sagas there is neither a page nor a link to one.
func TestSagas_None(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, full())
	cfg.sagas = nil
	d := newDashboard(t, cfg)
	for _, path := range []string{"/sagas", stuckPath} {
		if w := (asked{path: path, token: secrets["seer"]}).send(d); w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, w.Code)
		}
	}
	for _, path := range []string{"/sagas/reveal", "/sagas/resume", "/sagas/compensate"} {
		if w := (asked{method: http.MethodPost, path: path, token: secrets["seer"], form: namesOf("17")}).send(d); w.Code != http.StatusNotFound {
			t.Errorf("POST %s: status %d, want 404", path, w.Code)
		}
	}
	if body := (asked{path: "/", token: secrets["seer"]}).send(d).Body.String(); strings.Contains(body, "Sagas") {
		t.Error("the navigation leads to the page of sagas")
	}
}
