package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
)

// fake is a store with what a test puts into it. It notes every change.
type fake struct {
	mu      sync.Mutex
	letters []deadletter.Letter
	stats   []inspect.Stats
	replay  deadletter.Replay
	entries []deadletter.Entry
	changes []string // "requeue 1 by alice: why"
	edit    deadletter.Edit
	fail    error // of every method
	counted int   // calls of OutboxStats
	filter  deadletter.Filter
	panics  bool
	quiet   bool // there was no traffic

	messages []inspect.MessageState
	searches []inspect.Filter // but for those of the flow
	relays   []inspect.RelayState

	inboxes []inspect.InboxState // in addition to that of the mailer

	recurring []schedule.State
	scheduled []schedule.ScheduledMessage

	instances   []saga.Instance
	sagaLog     []saga.Entry // of each of them
	sagaFilter  saga.Filter
	sagaCounted int  // calls of SagaCounts
	overtaken   bool // changes of schedules and instances come too late
}

func (f *fake) MessageStates(_ context.Context, id string) ([]inspect.MessageState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []inspect.MessageState
	for _, l := range f.letters {
		if l.Message.ID == id {
			list = append(list, inspect.MessageState{ID: id, Tenant: l.Message.Tenant, Status: inspect.Dead, Topic: l.Message.Topic, Type: l.Message.Type, Key: l.Message.Key, Error: l.Error, EnqueuedAt: l.FirstFailed})
		}
	}
	for _, m := range f.messages {
		if m.ID == id && len(list) == 0 {
			list = append(list, m)
		}
	}
	for _, m := range f.scheduled {
		if m.ID == id {
			list = append(list, inspect.MessageState{ID: id, Tenant: m.Tenant, Status: inspect.Scheduled, Topic: m.Topic, Type: m.Type})
		}
	}
	for _, e := range f.sagaLog {
		if e.MessageID == id {
			list = append(list, inspect.MessageState{ID: id, Tenant: waybill.DefaultTenant, Status: inspect.Published})
		}
	}
	return list, f.fail
}

// OutboxMessages returns what has the status, and notes what was asked for.
func (f *fake) OutboxMessages(ctx context.Context, filter inspect.Filter) ([]inspect.MessageState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if filter.Limit != flowSample {
		f.searches = append(f.searches, filter)
	}
	list := []inspect.MessageState{}
	for _, m := range f.messages {
		onItsWay := m.Status == inspect.Pending || m.Status == inspect.Waiting || m.Status == inspect.Scheduled
		if (m.Status == filter.Status || filter.Status == "" && onItsWay) && len(list) < filter.Limit {
			list = append(list, m)
		}
	}
	return list, cmp.Or(f.fail, ctx.Err())
}

func (f *fake) OutboxStats(context.Context) ([]inspect.Stats, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted++
	if f.panics {
		var none *fake
		_ = none.stats
	}
	return f.stats, f.fail
}

func (f *fake) DeadLetters(_ context.Context, filter deadletter.Filter) ([]deadletter.Letter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.filter = filter
	list := []deadletter.Letter{}
	for _, l := range slices.Backward(f.letters) {
		same := l.State == cmp.Or(filter.State, deadletter.Open) && (filter.MessageID == "" || filter.MessageID == l.Message.ID)
		if same && (filter.After == 0 || l.Number < filter.After) && len(list) < filter.Limit {
			list = append(list, l)
		}
	}
	return list, f.fail
}

func (f *fake) DeadLetter(_ context.Context, number int64) (deadletter.Letter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.letters {
		if l.Number == number {
			return l, f.fail
		}
	}
	return deadletter.Letter{}, waybill.ErrNotFound
}

func (f *fake) DeadLetterGroups(_ context.Context, limit int) ([]deadletter.Group, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var groups []deadletter.Group
	for _, l := range f.letters[:min(len(f.letters), limit)] {
		groups = append(groups, deadletter.Group{
			Fingerprint: l.Fingerprint, Origin: l.Origin, Consumer: l.Consumer, Topic: l.Message.Topic, Type: l.Message.Type,
			Reason: l.Reason, Error: l.Error, Newest: l.Number, Open: 1, LastFailed: l.LastFailed, Trend: [24]int{23: 1},
		})
	}
	return groups, f.fail
}

func (f *fake) change(what string, number int64, act deadletter.Act) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, fmt.Sprintf("%s %d by %s: %s", what, number, act.By, act.Why))
	return true, f.fail
}

func (f *fake) RequeueDeadLetter(_ context.Context, number int64, act deadletter.Act) (bool, error) {
	return f.change("requeue", number, act)
}

func (f *fake) ResolveDeadLetter(_ context.Context, number int64, act deadletter.Act) (bool, error) {
	return f.change("resolve", number, act)
}

func (f *fake) DiscardDeadLetter(_ context.Context, number int64, act deadletter.Act) (bool, error) {
	return f.change("discard", number, act)
}

func (f *fake) RestoreDeadLetter(_ context.Context, number int64, act deadletter.Act) (bool, error) {
	return f.change("restore", number, act)
}

func (f *fake) DeleteDeadLetter(_ context.Context, number int64, act deadletter.Act) (bool, error) {
	return f.change("delete", number, act)
}

func (f *fake) EditDeadLetter(ctx context.Context, number int64, edit deadletter.Edit, act deadletter.Act) (string, error) {
	l, err := f.DeadLetter(ctx, number)
	if err != nil {
		return "", err
	}
	if _, err := edit.Apply(&l.Message, "copy"); err != nil {
		return "", err
	}
	f.edit = edit
	_, err = f.change("edit", number, act)
	return "copy", err
}

func (f *fake) AuditLog(_ context.Context, filter deadletter.AuditFilter) ([]deadletter.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := []deadletter.Entry{}
	for _, e := range slices.Backward(f.entries) {
		same := (filter.Letter == 0 || e.Letter == filter.Letter) && (filter.MessageID == "" || e.MessageID == filter.MessageID)
		if same && (filter.Before == 0 || e.Number < filter.Before) && len(list) < filter.Limit {
			list = append(list, e)
		}
	}
	return list, f.fail
}

func (f *fake) RecordAudit(_ context.Context, e deadletter.Entry) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail == nil {
		e.Number, e.At = int64(len(f.entries)+1), time.Now()
		f.entries = append(f.entries, e)
	}
	return f.fail
}

func (f *fake) PreviewReplay(_ context.Context, filter deadletter.Filter, _ time.Duration) (deadletter.Preview, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.filter = filter
	return deadletter.Preview{Letters: len(f.letters), Keys: 1, Unprotected: 1, Oldest: time.Now().Add(-time.Hour)}, f.fail
}

func (f *fake) StartReplay(_ context.Context, p deadletter.Plan, act deadletter.Act) (int64, error) {
	f.replay = deadletter.Replay{Number: 7, Plan: p, Act: act, State: deadletter.Running, Letters: 3, StartedAt: time.Now()}
	_, err := f.change("replay", 7, act)
	return 7, err
}

func (f *fake) Replay(_ context.Context, number int64) (deadletter.Replay, error) {
	if f.replay.Number != number {
		return deadletter.Replay{}, waybill.ErrNotFound
	}
	return f.replay, f.fail
}

func (f *fake) Replays(context.Context, int) ([]deadletter.Replay, error) {
	if f.replay.Number == 0 {
		return nil, f.fail
	}
	return []deadletter.Replay{f.replay}, f.fail
}

func (f *fake) CancelReplay(_ context.Context, number int64, act deadletter.Act) (bool, error) {
	return f.change("cancel", number, act)
}

func (f *fake) RelayStates(context.Context) ([]inspect.RelayState, error) {
	if f.relays != nil {
		return f.relays, f.fail
	}
	return []inspect.RelayState{
		{Lanes: []int{5}},
		{Node: "node-1", Alive: true, Lanes: []int{0, 1, 2, 4}, StartedAt: time.Now(), ExpiresAt: time.Now().Add(time.Second), Since: time.Now()},
	}, f.fail
}

func (f *fake) InboxStates(context.Context, string, string) ([]inspect.InboxState, error) {
	at := time.Now()
	return append([]inspect.InboxState{{Consumer: "mailer", ProcessedAt: &at}}, f.inboxes...), f.fail
}

// secrets of the people in tests, by role.
var secrets = map[string]string{
	"reader": "reader-0123456789abcdef", "operator": "operator-0123456789abcdef", "admin": "admin-0123456789abcdef", "seer": "seer-0123456789abcdef",
}

func testTokens(t *testing.T) *Tokens {
	t.Helper()
	grants := map[string]Grant{"reader": {Role: Reader}, "operator": {Role: Operator}, "admin": {Role: Admin}, "seer": {Role: Admin, Reveal: true}}
	var tokens []Token
	for name, secret := range secrets {
		token, err := NewToken(name, secret, grants[name])
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	access, err := NewTokens(tokens...)
	if err != nil {
		t.Fatal(err)
	}
	return access
}

func testConfig(t *testing.T, f *fake) setup {
	t.Helper()
	return setup{storesOf(f), Config{
		Access: testTokens(t), Environment: "test",
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Checks: func(context.Context) []Finding { return []Finding{{Warn, "clock", "differs <much>", "set it"}} },
	}}
}

// setup is what a dashboard is made of; a test may take something away.
type setup struct {
	stores
	Config
}

func newDashboard(t *testing.T, s setup) *Dashboard {
	t.Helper()
	d, err := newOf(s.stores, s.Config)
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	return d
}

// full is a store with something on each page.
func full() *fake {
	now := time.Now()
	f := &fake{
		stats:  []inspect.Stats{{Topic: "orders", Status: inspect.Pending, Count: 1234567, Oldest: time.Hour}, {Topic: "orders", Status: inspect.Dead, Count: 2}},
		replay: deadletter.Replay{Number: 7, State: deadletter.Running, Letters: 3, Act: deadletter.Act{By: "op"}, StartedAt: now},
		entries: []deadletter.Entry{{
			Number: 1, At: now, Action: deadletter.ActRequeue, By: "op", Why: "fixed", Letter: 1, MessageID: "m1", Replay: 7,
		}},
	}
	f.recurring = fullSchedules()
	for i := range 60 {
		f.scheduled = append(f.scheduled, schedule.ScheduledMessage{
			ID: fmt.Sprintf("later-%d", i), Topic: "billing", Type: "invoices.run", Tenant: "default", Key: "k", DueAt: noon.Add(time.Hour), Cancellable: i != 1, Position: int64(i),
		})
	}
	f.fillSagas()
	for i, status := range inspect.Statuses() {
		f.messages = append(f.messages, inspect.MessageState{
			ID: fmt.Sprintf("m%d", i+1), Status: status, Topic: "orders", Type: "order.created", Key: "k", Error: "<no route>", EnqueuedAt: now, DueAt: &now,
		})
	}
	for i := range 3 {
		n := int64(i + 1)
		f.letters = append(f.letters, deadletter.Letter{
			Number: n, Origin: deadletter.FromRelay, Reason: waybill.ReasonExhausted, Error: "no route", Fingerprint: "f0", Attempts: 6,
			FirstFailed: now.Add(-time.Hour), LastFailed: now, State: deadletter.Open, History: []deadletter.Attempt{{At: now, Node: "n", Error: "no route"}},
			Message: waybill.Message{ID: fmt.Sprintf("m%d", n), Topic: "orders", Type: "order.created", Source: "shop", Tenant: "default", Key: "k",
				ContentType: "application/json", Payload: []byte(`{"secret-amount":1}`), Headers: map[string]string{"x-user": "secret-user"}},
		})
	}
	return f
}

// asked is one request of a test.
type asked struct {
	method, path string
	from         string // address and port; one of httptest's if it is empty
	token        string // bearer
	form         url.Values
	header       map[string]string
}

func (a asked) send(d http.Handler) *httptest.ResponseRecorder {
	r := httptest.NewRequest(cmp.Or(a.method, http.MethodGet), a.path, strings.NewReader(a.form.Encode()))
	if a.form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	for name, value := range a.header {
		r.Header.Set(name, value)
	}
	r.RemoteAddr = cmp.Or(a.from, r.RemoteAddr)
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// views are all pages, and changes all forms, that the routes have.
var (
	views = []string{"/", "/messages", "/messages?status=Pending", "/messages?key=k&status=any", "/consumers", "/checks", "/messages?id=m1", "/messages?id=m1&inbox=1", "/dead", "/dead/list", "/dead/list?fingerprint=f0&text=x",
		"/dead/1", "/replays", "/replays/new?fingerprint=f0", "/replays/7", "/relays", "/audit", "/schedules", "/schedules?place=2026-03-01T13:00:00Z,49", "/schedules/one?name=nightly+%3Cb%3E", "/schedules/one?id=later-0",
		"/sagas", "/sagas?status=stuck", stuckPath, "/traffic", "/traffic?span=day&consumer=mailer"}
	changes = []string{"/dead/selected", "/dead/1/reveal", "/dead/1/requeue", "/dead/1/resolve", "/dead/1/discard", "/dead/1/restore", "/dead/1/delete", "/dead/1/edit", "/dead/1/save",
		"/replays", "/replays/7/cancel", "/schedules/reveal", "/schedules/pause", "/schedules/resume", "/schedules/run-now", "/schedules/remove", "/schedules/cancel",
		"/sagas/reveal", "/sagas/resume", "/sagas/compensate"}
	anyForm = url.Values{"name": {"nightly <b>"}, "id": {"later-0"}, "why": {"because"}, "do": {"requeue"}, "number": {"1"}, "rate": {"5"}, "ratio": {"50"}, "filter": {"fingerprint=f0"},
		"type": {"t"}, "address": {"orders"}, "content_type": {"application/json"}, "payload": {"{}"}, "headers": {""}}
)

// formFor is a form for any path: only what is stuck can be resumed, and what runs compensated.
func formFor(path string) url.Values {
	form := maps.Clone(anyForm)
	form.Set("saga", "order")
	form.Set("key", "17")
	if path == "/sagas/compensate" {
		form.Set("key", "18")
	}
	return form
}

var voidElements = []string{"meta", "link", "input", "br", "path", "rect"}

var tag = regexp.MustCompile(`<(/?)([a-zA-Z][a-zA-Z0-9]*)((?:"[^"]*"|'[^']*'|[^'">])*)>|<!DOCTYPE html>`)

// checkHTML reports tags that do not match each other, ids that are used twice, and '<' that
// begins no tag: signs of data that is not escaped.
func checkHTML(t *testing.T, name, page string) {
	t.Helper()
	var open []string
	ids := make(map[string]bool)
	idOf := regexp.MustCompile(`\sid="([^"]*)"`)
	for _, m := range tag.FindAllStringSubmatch(page, -1) {
		element := strings.ToLower(m[2])
		if id := idOf.FindStringSubmatch(m[3]); id != nil {
			if ids[id[1]] {
				t.Errorf("%s: id %q is used twice", name, id[1])
			}
			ids[id[1]] = true
		}
		switch {
		case element == "" || slices.Contains(voidElements, element):
		case m[1] == "":
			open = append(open, element)
		case len(open) == 0 || open[len(open)-1] != element:
			t.Errorf("%s: </%s> closes nothing; open are %v", name, element, open)
			return
		default:
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("%s: %v are not closed", name, open)
	}
	if rest := tag.ReplaceAllString(page, ""); strings.Contains(rest, "<") {
		t.Errorf("%s: a '<' that begins no tag", name)
	}
}
