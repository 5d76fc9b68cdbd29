package ops_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/schedule"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestEvents: what happened stands in its order, one enqueue for several destinations once, attempts where the letter
// remembers them, and what has no time last.
func TestEvents(t *testing.T) {
	t.Parallel()
	minute := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	published, due := minute(1), minute(9)
	state := inspect.MessageState{Source: "shop", Tenant: waybill.DefaultTenant, Topic: "orders", EnqueuedAt: noon}
	a, b := state, state
	a.Destination, a.PublishedAt = "east", &published
	b.Destination, b.DueAt, b.Tenant = "west", &due, "acme"
	letter := deadletter.Letter{Number: 7, Origin: deadletter.FromConsumer, Consumer: "billing", Reason: "rejected", Error: "no such customer", FirstFailed: minute(2), LastFailed: minute(4)}
	full := letter
	full.History = []deadletter.Attempt{{At: minute(2), Node: "n1", Error: "first"}, {At: minute(4), Node: "n2", Error: "second"}}
	for _, tt := range []struct {
		name string
		life ops.Life
		want string
	}{
		{"destinations", ops.Life{States: []inspect.MessageState{a, a, b}},
			"enqueued by shop; enqueued by shop for tenant acme; published to orders east; due for orders west"},
		{"a letter without history", ops.Life{Letters: []ops.LetterRow{ops.LetterRowOf(letter)}},
			"failed first letter 7 of consumer billing; dead-lettered letter 7 of consumer billing, rejected: no such customer"},
		{"one with history", ops.Life{Letters: []ops.LetterRow{ops.LetterRowOf(full)}},
			"attempt failed on n1: first; attempt failed on n2: second; dead-lettered letter 7 of consumer billing, rejected: no such customer"},
		{"inbox and audit", ops.Life{
			Inbox: []inspect.InboxState{{Consumer: "mailer", DueAt: &due, Attempts: 1, Error: "busy"}, {Consumer: "billing", ProcessedAt: &published}},
			Audit: []deadletter.Entry{{Action: "edit", By: "ann", Why: "typo"}, {At: minute(3), Action: "resolve", By: "ann", Why: "mailed"}},
		}, "processed by consumer billing; resolve by ann mailed; due again for consumer mailer after 1 failed attempt: busy; edit by ann typo"},
	} {
		var got []string
		for _, e := range tt.life.Events() {
			got = append(got, e.What+" "+e.Detail)
		}
		if text := strings.Join(got, "; "); text != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.name, text, tt.want)
		}
	}
}

func TestIdle(t *testing.T) {
	t.Parallel()
	running := deadletter.Replay{State: deadletter.Running}
	slow := deadletter.Replay{State: deadletter.Running, Plan: deadletter.Plan{Rate: 0.01}}
	for _, tt := range []struct {
		replay  deadletter.Replay
		still   time.Duration
		noRelay bool
		want    string // a part of it
	}{
		{running, ops.IdleAfter - time.Second, true, ""},
		{running, ops.IdleAfter, true, "for 15s: no relay is alive"},
		{running, ops.IdleAfter, false, "their logs say"},
		{slow, 299 * time.Second, false, ""},
		{slow, 301 * time.Second, false, "for 5m1s"},
		{deadletter.Replay{State: deadletter.Done}, time.Hour, true, ""},
	} {
		if got := ops.Idle(&tt.replay, tt.still, tt.noRelay); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("Idle(%v, %v, %v) = %q, want %q", tt.replay.Plan.Rate, tt.still, tt.noRelay, got, tt.want)
		}
	}
}

// TestConditions: what holds of a letter in addition to its reason is said wherever it is shown.
func TestConditions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		letter     deadletter.Letter
		conditions string
		state      string
	}{
		{deadletter.Letter{Reason: "rejected", State: deadletter.Open}, "rejected", "open"},
		{deadletter.Letter{Reason: "rejected", State: deadletter.Open, Requeued: true}, "rejected, requeued", "open, requeued"},
		{deadletter.Letter{Reason: "rejected", State: deadletter.Resolved}, "rejected, resolved", "resolved"},
		{deadletter.Letter{Reason: "exhausted", State: deadletter.Open, Failed: true, Parks: true, Behind: 12},
			"exhausted, failed for good, parks its key with 12 behind", "open, failed for good, parks its key with 12 behind"},
	} {
		if got := strings.Join(ops.Conditions(&tt.letter), ", "); got != tt.conditions {
			t.Errorf("Conditions() = %s, want %s", got, tt.conditions)
		}
		if got := ops.LetterState(&tt.letter); got != tt.state {
			t.Errorf("LetterState() = %s, want %s", got, tt.state)
		}
	}
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	s := schedule.State{NextAt: noon}
	s.Every = 90 * time.Minute
	if got := ops.When(&s.Recurring) + ", " + ops.Late(&s, noon.Add(3*time.Minute)) + ops.Late(&s, noon); got != "every 1h30m, 3m0s" {
		t.Errorf("the schedule is %s", got)
	}
	s.Every, s.Cron, s.TimeZone = 0, "30 4 * * *", "UTC"
	if got := ops.When(&s.Recurring); got != "30 4 * * * UTC" {
		t.Errorf("When() = %q", got)
	}
	m := schedule.ScheduledMessage{DueAt: noon.Add(time.Nanosecond), Position: 49}
	if got, err := ops.ParsePlace(ops.Place(&m)); err != nil || *got != m {
		t.Errorf("ParsePlace() = %+v, %v, want %+v", got, err, m)
	}
	for _, bad := range []string{"soon", "2026-03-01T13:00:00Z", ",7"} {
		if _, err := ops.ParsePlace(bad); err == nil {
			t.Errorf("ParsePlace(%q) takes it", bad)
		}
	}
}

func TestCheckRelays(t *testing.T) {
	t.Parallel()
	alive, gone, free := inspect.RelayState{Node: "a", Alive: true, Lanes: []int{0, 1}}, inspect.RelayState{Node: "b", Lanes: []int{2}}, inspect.RelayState{Lanes: []int{3}}
	for _, tt := range []struct {
		states []inspect.RelayState
		want   string
	}{
		{nil, "[{problem relays No relay is running Start one, or nothing is published.}]"},
		{[]inspect.RelayState{gone}, "[{problem relays No relay is running Start one, or nothing is published.}]"},
		{[]inspect.RelayState{alive, gone, free}, "[{warning lanes 1 lane owned by nobody A relay takes them within seconds; if it stays so, look at its log.}]"},
		{[]inspect.RelayState{alive, gone}, "[]"},
	} {
		if got := fmt.Sprint(ops.CheckRelays(ops.CountRelays(tt.states))); got != tt.want {
			t.Errorf("CheckRelays() = %s, want %s", got, tt.want)
		}
	}
}
