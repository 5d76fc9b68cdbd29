package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
)

// foreign stands in everything that belongs to another tenant, or to all.
const foreign = "S3CR3T"

// mixed is a full store whose messages are another tenant's, with one thing of each kind that is acme's. It filters
// by no tenant, as a store would that forgot it.
func mixed() *fake {
	f := full()
	f.stats[0].Topic, f.replay.Act.By = foreign, foreign
	f.relays = []inspect.RelayState{{Node: foreign, Alive: true, StartedAt: noon, ExpiresAt: noon, Since: noon}}
	for i := range f.letters {
		l := &f.letters[i]
		l.Error, l.Fingerprint, l.Consumer, l.Origin, l.History[0].Error = foreign, foreign, foreign, deadletter.FromConsumer, foreign
		l.Message.Tenant, l.Message.Topic, l.Message.Type, l.Message.Key, l.Message.Payload = "globex", foreign, foreign, foreign, []byte(foreign)
	}
	for i := range f.messages {
		f.messages[i].Tenant, f.messages[i].Topic, f.messages[i].Type, f.messages[i].Error = "globex", foreign, foreign, foreign
	}
	for i := range f.scheduled {
		f.scheduled[i].Tenant, f.scheduled[i].Topic, f.scheduled[i].Type = "globex", foreign, foreign
	}
	for i := range f.recurring {
		f.recurring[i].Message.Tenant, f.recurring[i].Message.To, f.recurring[i].Message.Type = "globex", foreign, foreign
	}
	for i := range f.instances {
		f.instances[i].Tenant, f.instances[i].Error, f.instances[i].State = "globex", foreign, foreign
	}
	f.instances = append(f.instances, saga.Instance{ID: saga.ID{Tenant: "globex", Saga: foreign, Key: foreign}, Number: 50, Status: saga.Running})
	at := noon
	f.inboxes = []inspect.InboxState{{Tenant: "globex", Consumer: foreign, ProcessedAt: &at}, {Tenant: "acme", Consumer: "own-mailer", ProcessedAt: &at}}
	f.addOwn()
	return f
}

// addOwn adds what is acme's. Its letter's message has the id of another tenant's.
func (f *fake) addOwn() {
	own := f.letters[0]
	own.Number, own.Error, own.Consumer, own.Fingerprint, own.History = 100, "own error", "own-consumer", "own", nil
	own.Message = waybill.Message{ID: "m1", Topic: "own-topic", Type: "own.created", Tenant: "acme", Source: "shop", ContentType: "text/plain", Payload: []byte("own payload")}
	f.letters = append(f.letters, own)
	f.messages = append(f.messages, inspect.MessageState{ID: "own", Status: inspect.Pending, Tenant: "acme", Topic: "own-topic", Type: "own.created", EnqueuedAt: noon})
	f.entries = append(f.entries,
		deadletter.Entry{Number: 2, At: noon, Action: deadletter.ActResolve, By: foreign, Letter: 2, MessageID: "m1"},
		deadletter.Entry{Number: 3, At: noon, Action: deadletter.ActEffect, By: foreign, MessageID: "m1"},
		deadletter.Entry{Number: 4, At: noon, Action: deadletter.ActDelete, By: foreign, Letter: 99, MessageID: "m1"},
		deadletter.Entry{Number: 5, At: noon, Action: deadletter.ActRestore, By: "own-operator", Letter: 100, MessageID: "m1"})
	f.entries[0].By = foreign
	nightly := f.recurring[1]
	nightly.Name, nightly.Message = "own nightly", secretive("")
	nightly.Message.Tenant = "acme"
	paused := nightly
	paused.Name, paused.Paused = "own paused", true
	f.recurring = append(f.recurring, nightly, paused)
	f.scheduled = append(f.scheduled, schedule.ScheduledMessage{ID: "own-later", Topic: "own-topic", Tenant: "acme", DueAt: noon, Cancellable: true, Position: 1000})
	for i, status := range []saga.Status{saga.Stuck, saga.Running} {
		in := f.instances[i]
		in.ID, in.Number, in.Status, in.Error, in.State = saga.ID{Tenant: "acme", Saga: "order", Key: fmt.Sprintf("own-%d", i)}, int64(100+i), status, "", "own-state"
		f.instances = append(f.instances, in)
	}
}

// limited is a dashboard with an admin who is limited to acme, and may see its payloads.
func limited(t *testing.T, f *fake) (d *Dashboard, secret string) {
	t.Helper()
	secret = "token-of-acme-0123456789"
	own, err := NewToken("kim", secret, Grant{Role: Admin, Reveal: true, Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewToken(foreign, secrets["admin"], Grant{Role: Admin})
	if err != nil {
		t.Fatal(err)
	}
	access, err := NewTokens(own, other)
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t, f)
	cfg.Access = access
	cfg.Checks = func(context.Context) []Finding { return []Finding{{Level: Warn, Check: foreign}} }
	d = newDashboard(t, cfg)
	asked{method: http.MethodPost, path: "/login", form: url.Values{"token": {secrets["admin"]}}}.send(d) // a session of somebody else
	return d, secret
}

func formOf(pairs ...string) url.Values {
	form := url.Values{"why": {"because"}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

func sagaForm(tenant, key string) url.Values {
	return formOf("tenant", tenant, "saga", "order", "key", key)
}

// tried is what is tried at a route that is limited to a tenant: at what belongs to others, and at one's own.
type tried struct {
	others []asked
	own    asked
	shows  string // on the page of one's own; of a change: where it leads
}

func letterTried(what string, form url.Values, shows string) tried {
	return tried{others: []asked{{path: "/dead/1/" + what, form: form}}, own: asked{path: "/dead/100/" + what, form: form}, shows: shows}
}

func scheduleTried(what, own, shows string) tried {
	return tried{others: []asked{{path: "/schedules/" + what, form: formOf("name", "nightly <b>")}, {path: "/schedules/" + what, form: formOf("name", "paused")}},
		own: asked{path: "/schedules/" + what, form: formOf("name", own)}, shows: shows}
}

var edit = formOf("type", "t", "address", "orders", "content_type", "text/plain", "payload", "{}", "headers", "")

var limitedRoutes = map[string]tried{
	"GET /{$}": {others: []asked{{path: "/"}}, own: asked{path: "/"}, shows: "./messages"},
	"GET /messages": {others: []asked{{path: "/messages?id=m2&inbox=1"}, {path: "/messages?id=m1&inbox=1"}, {path: "/messages?status=Pending"}, {path: "/messages?key=k&status=any"}},
		own: asked{path: "/messages?id=m1&inbox=1"}, shows: "own-mailer"},
	"GET /find": {others: []asked{{path: "/find?q=globex"}, {path: "/find?q=m2"}}, own: asked{path: "/find?q=acme"}, shows: "own-topic"},
	"GET /dead/list": {others: []asked{{path: "/dead/list"}, {path: "/dead/list?tenant=globex"}, {path: "/dead/list?after=101"}},
		own: asked{path: "/dead/list?tenant=acme"}, shows: "own error"},
	"POST /dead/selected": {others: []asked{{path: "/dead/selected", form: formOf("do", "requeue", "number", "1")}, {path: "/dead/selected", form: formOf("do", "resolve", "number", "1")}},
		own: asked{path: "/dead/selected", form: formOf("do", "requeue", "number", "100")}, shows: "changed=1"},
	"GET /dead/{number}":          {others: []asked{{path: "/dead/1"}, {path: "/dead/99"}}, own: asked{path: "/dead/100"}, shows: "own-operator"},
	"POST /dead/{number}/reveal":  letterTried("reveal", formOf(), "own payload"),
	"POST /dead/{number}/requeue": letterTried("requeue", formOf(), "done=requeue"),
	"POST /dead/{number}/resolve": letterTried("resolve", formOf(), "done=resolve"),
	"POST /dead/{number}/discard": letterTried("discard", formOf(), "done=discard"),
	"POST /dead/{number}/restore": letterTried("restore", formOf(), "done=restore"),
	"POST /dead/{number}/delete":  letterTried("delete", formOf(), "done=delete"),
	"POST /dead/{number}/edit":    letterTried("edit", formOf(), "own payload"),
	"POST /dead/{number}/save":    letterTried("save", edit, "done=edited"),
	"GET /sagas":                  {others: []asked{{path: "/sagas"}, {path: "/sagas?tenant=globex"}, {path: "/sagas?status=stuck"}}, own: asked{path: "/sagas?tenant=acme"}, shows: "own-1"},
	"GET /sagas/instance":         {others: []asked{{path: "/sagas/instance?tenant=globex&saga=order&key=17"}}, own: asked{path: "/sagas/instance?tenant=acme&saga=order&key=own-0"}, shows: "own-state"},
	"POST /sagas/reveal":          {others: []asked{{path: "/sagas/reveal", form: sagaForm("globex", "17")}}, own: asked{path: "/sagas/reveal", form: sagaForm("acme", "own-0")}, shows: "secret-amount"},
	"POST /sagas/resume":          {others: []asked{{path: "/sagas/resume", form: sagaForm("globex", "17")}}, own: asked{path: "/sagas/resume", form: sagaForm("acme", "own-0")}, shows: "done=resume"},
	"POST /sagas/compensate":      {others: []asked{{path: "/sagas/compensate", form: sagaForm("globex", "18")}}, own: asked{path: "/sagas/compensate", form: sagaForm("acme", "own-1")}, shows: "done=compensate"},
	"GET /schedules":              {others: []asked{{path: "/schedules"}, {path: "/schedules?after=a"}, {path: "/schedules?place=2026-03-01T13:00:00Z,49"}}, own: asked{path: "/schedules"}, shows: "own-later"},
	"GET /schedules/one":          {others: []asked{{path: "/schedules/one?name=nightly+%3Cb%3E"}, {path: "/schedules/one?id=later-0"}}, own: asked{path: "/schedules/one?name=own+nightly"}, shows: "own nightly"},
	"POST /schedules/reveal":      {others: []asked{{path: "/schedules/reveal", form: formOf("name", "paused")}, {path: "/schedules/reveal", form: formOf("id", "later-0")}}, own: asked{path: "/schedules/reveal", form: formOf("id", "own-later")}, shows: "secret-amount"},
	"POST /schedules/pause":       scheduleTried("pause", "own nightly", "done=pause"),
	"POST /schedules/resume":      scheduleTried("resume", "own paused", "done=resume"),
	"POST /schedules/run-now":     scheduleTried("run-now", "own nightly", "done=run-now"),
	"POST /schedules/remove":      scheduleTried("remove", "own nightly", "done=remove"),
	"POST /schedules/cancel":      {others: []asked{{path: "/schedules/cancel", form: formOf("id", "later-0")}}, own: asked{path: "/schedules/cancel", form: formOf("id", "own-later")}, shows: "done=cancel"},
}

// Whoever is limited to a tenant sees and changes nothing of another one by any route, and what is its own by
// those that are limited. A route that says nothing of tenants refuses.
func TestTenant_EveryRoute(t *testing.T) {
	t.Parallel()
	known, _ := limited(t, mixed())
	for _, r := range known.list() {
		t.Run(r.pattern, func(t *testing.T) {
			t.Parallel()
			method, path, found := strings.Cut(r.pattern, " ")
			if !found {
				method, path = http.MethodGet, "/nowhere"
			}
			try, isTried := limitedRoutes[r.pattern]
			switch {
			case r.of == ofAllTenants:
				try.others = []asked{{path: strings.ReplaceAll(path, "{number}", "7"), form: formOf("rate", "5", "ratio", "50")}}
			case r.of == ofNoTenant:
				try.others = []asked{{path: strings.ReplaceAll(path, "{number}", "1")}}
			case !isTried:
				t.Fatal("the route is limited to a tenant, and nothing is tried at it")
			}
			for _, a := range try.others {
				f := mixed()
				audited := len(f.entries)
				d, secret := limited(t, f)
				a.method, a.token = method, secret
				w := a.send(d)
				if strings.Contains(w.Body.String(), foreign) || strings.Contains(fmt.Sprint(w.Header()), foreign) {
					t.Errorf("%s %v shows what is of another tenant: %d %s", a.path, a.form, w.Code, w.Body)
				}
				if len(f.changes) > 0 || len(f.entries) != audited {
					t.Errorf("%s %v has changed what is of another tenant: %q, %v", a.path, a.form, f.changes, f.entries[audited:])
				}
				if r.of == ofAllTenants && w.Code != http.StatusForbidden {
					t.Errorf("%s: status %d, want 403", a.path, w.Code)
				}
			}
			if r.of == ofOneTenant {
				tryOwn(t, method, try)
			}
		})
	}
}

// tryOwn shows that what is one's own is there, and can be changed.
func tryOwn(t *testing.T, method string, try tried) {
	t.Helper()
	f := mixed()
	audited := len(f.entries)
	d, secret := limited(t, f)
	a := try.own
	a.method, a.token = method, secret
	w := a.send(d)
	if w.Code >= 400 || !strings.Contains(w.Body.String()+w.Header().Get("Location"), try.shows) {
		t.Errorf("%s %v = %d %s %s, want %q", a.path, a.form, w.Code, w.Header().Get("Location"), w.Body, try.shows)
	}
	if changed := len(f.changes) + len(f.entries) - audited; method == http.MethodPost && changed != 1 {
		t.Errorf("%s %v has made %d changes, want 1", a.path, a.form, changed)
	}
}

// What changes something asks whose it is, also where a page has asked before.
func TestTenant_Changes(t *testing.T) {
	t.Parallel()
	f, ctx, act := mixed(), t.Context(), deadletter.Act{By: "kim", Why: "because"}
	all := stores{letters: f, sagas: f, schedules: f}.limitedTo("acme")
	m := secretive("m")
	m.Tenant = "globex"
	_, edited := all.letters.EditDeadLetter(ctx, 1, deadletter.Edit{}, act)
	_, scheduled := all.schedules.ScheduleMessage(ctx, &m, deadletter.Entry{})
	_, changed := all.schedules.ChangeSchedule(ctx, f.recurring[0], deadletter.Entry{})
	_, compensated := all.sagas.ChangeSaga(ctx, f.instances[0], saga.Entry{}, &m, deadletter.Entry{})
	for what, err := range map[string]error{"EditDeadLetter": edited, "ScheduleMessage": scheduled, "ChangeSchedule": changed, "ChangeSaga": compensated} {
		if !errors.Is(err, waybill.ErrNotFound) {
			t.Errorf("%s() = %v, want ErrNotFound", what, err)
		}
	}
	if log, err := all.sagas.SagaLog(ctx, f.instances[0].ID, 0, 10); err != nil || len(log) > 0 || len(f.changes) > 0 {
		t.Errorf("SagaLog() = %v, %v; changes %q", log, err, f.changes)
	}
}

// The store is asked for the tenant's messages only, so that pages are as long as they should be.
func TestTenant_Filters(t *testing.T) {
	t.Parallel()
	f := mixed()
	d, secret := limited(t, f)
	for _, path := range []string{"/messages?status=Pending", "/dead/list", "/sagas"} {
		asked{path: path, token: secret}.send(d)
	}
	if f.filter.Tenant != "acme" || f.sagaFilter.Tenant != "acme" || len(f.searches) != 1 || f.searches[0].Tenant != "acme" {
		t.Errorf("the store was asked for %+v, %+v, %+v", f.filter, f.sagaFilter, f.searches)
	}
}

// Pages of schedules are full though others' lie between, and go on behind what was shown.
func TestTenant_SchedulesByPage(t *testing.T) {
	t.Parallel()
	const pages, others = 3, 2500
	f := &fake{}
	for i := range pages * schedulesOnPage {
		name := fmt.Sprintf("s%03d", i)
		for _, tenant := range []string{"acme", "globex"} {
			s := schedule.State{Recurring: schedule.Recurring{Name: name + tenant, Every: time.Hour, Message: waybill.Message{Tenant: tenant}}}
			f.recurring = append(f.recurring, s)
		}
	}
	for i := range others {
		f.scheduled = append(f.scheduled, schedule.ScheduledMessage{ID: fmt.Sprint(i), Tenant: "globex", Position: int64(i)})
	}
	f.scheduled = append(f.scheduled, schedule.ScheduledMessage{ID: "own", Tenant: "acme", Position: others})
	s := schedulesOf{f, "acme"}
	var names []string
	for after := ""; ; {
		list, err := s.Schedules(t.Context(), after, schedulesOnPage)
		if err != nil || len(list) > schedulesOnPage {
			t.Fatalf("Schedules() = %d, %v", len(list), err)
		}
		if len(list) == 0 {
			break
		}
		after = list[len(list)-1].Name
		for _, one := range list {
			names = append(names, one.Name)
		}
	}
	if len(names) != pages*schedulesOnPage || !slices.IsSorted(names) || strings.Contains(fmt.Sprint(names), "globex") {
		t.Errorf("the schedules are %q", names)
	}
	if list, err := s.ScheduledMessages(t.Context(), nil, 2); err != nil || len(list) != 1 || list[0].ID != "own" {
		t.Errorf("ScheduledMessages() = %v, %v", list, err)
	}
}

func TestTenant_Navigation(t *testing.T) {
	t.Parallel()
	d, secret := limited(t, mixed())
	page := asked{path: "/dead/list", token: secret}.send(d).Body.String()
	checkHTML(t, "/dead/list", page)
	for _, gone := range []string{`href="../replays"`, `href="../relays"`, `href="../consumers"`, `href="../checks"`, `href="../audit"`} {
		if strings.Contains(page, gone) {
			t.Errorf("the page leads to %s, which is refused", gone)
		}
	}
	if !strings.Contains(page, "admin of acme") {
		t.Error("the page does not say which tenant it is about")
	}
	for _, path := range []string{"/schedules", "/sagas", "/audit", "/schedules/one?name=own+nightly"} {
		checkHTML(t, path, asked{path: path, token: secret}.send(d).Body.String())
	}
}

// A token that is limited while its session goes on is limited from then on.
func TestTenant_SessionGoesOn(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, mixed())
	d := newDashboard(t, cfg)
	cookie := strings.SplitN(asked{method: http.MethodPost, path: "/login", form: url.Values{"token": {secrets["admin"]}}}.send(d).Header().Get("Set-Cookie"), ";", 2)[0]
	ask := asked{path: "/dead/1", header: map[string]string{"Cookie": cookie}}
	if w := ask.send(d); w.Code != http.StatusOK {
		t.Fatalf("before: status %d", w.Code)
	}
	token, err := NewToken("admin", secrets["admin"], Grant{Role: Admin, Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Access.(*Tokens).Set(token); err != nil {
		t.Fatal(err)
	}
	if w := ask.send(d); w.Code != http.StatusNotFound {
		t.Errorf("limited: status %d, want 404", w.Code)
	}
}

func TestParseGrant_Tenant(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Grant{
		"reader@acme":            {Role: Reader, Tenant: "acme"},
		"admin+payloads@a@b":     {Role: Admin, Reveal: true, Tenant: "a@b"},
		"operator@" + longTenant: {Role: Operator, Tenant: longTenant},
	} {
		if got, err := ParseGrant(text); err != nil || got != want {
			t.Errorf("ParseGrant(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"reader@", "@acme", "acme@reader", "reader@acme+payloads", "reader@" + longTenant + "x", "reader@\xff"} {
		if got, err := ParseGrant(text); err == nil {
			t.Errorf("ParseGrant(%q) = %v", text, got)
		}
	}
	token, err := NewToken("a", secrets["reader"], Grant{Role: Reader, Tenant: "a\x00"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewTokens(token); err == nil {
		t.Error("NewTokens() with a tenant that no message can have = nil")
	}
}

var longTenant = strings.Repeat("t", waybill.MaxTenantLen)

// Grants for different tenants do not add up to more than one of them says.
func TestGrant_Join(t *testing.T) {
	t.Parallel()
	all, seer := Grant{Role: Reader}, Grant{Role: Reader, Reveal: true, Tenant: "a"}
	tests := []struct{ a, b, want Grant }{
		{Grant{}, all, all},
		{all, Grant{}, all},
		{all, Grant{Role: Operator, Reveal: true}, Grant{Role: Operator, Reveal: true}},
		{all, seer, all},
		{seer, all, all},
		{all, Grant{Role: Admin, Tenant: "a"}, Grant{Role: Admin, Tenant: "a"}},
		{Grant{Role: Admin, Tenant: "a"}, all, Grant{Role: Admin, Tenant: "a"}},
		{seer, Grant{Role: Reader, Tenant: "b"}, seer},
		{seer, Grant{Role: Operator, Tenant: "a"}, Grant{Role: Operator, Reveal: true, Tenant: "a"}},
	}
	for _, tt := range tests {
		if got := tt.a.join(tt.b); got != tt.want {
			t.Errorf("%+v.join(%+v) = %+v, want %+v", tt.a, tt.b, got, tt.want)
		}
	}
}
