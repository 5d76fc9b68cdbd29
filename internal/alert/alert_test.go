package alert

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 8, 1, 3, 0, 0, 0, time.UTC)

// findings returns findings by their subjects, such as "broker" or "sagas/order".
func findings(subjects ...string) []Finding {
	var list []Finding
	for _, s := range subjects {
		subject, about, _ := strings.Cut(s, "/")
		list = append(list, Finding{Severity: "warning", Subject: subject, About: about, Found: "found", Advice: "do"})
	}
	return list
}

// TestNext: each step is one check, a second after the one before: what it finds, and what is announced after
// it. "?" stands for a check that could not read everything.
func TestNext(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, checks, want string }{
		{"nothing", "- - -", "- - -"},
		{"a finding that holds begins once", "broker broker broker broker", "- began:broker - -"},
		{"and ends once", "broker broker - - - -", "- began:broker - ended:broker - -"},
		{"two turns", "broker broker - - broker broker - -", "- began:broker - ended:broker - began:broker - ended:broker"},
		{"one that comes and goes is not announced", "broker - broker - broker -", "- - - - - -"},
		{"one that goes and comes does not end", "broker broker - broker - broker - -", "- began:broker - - - - - ended:broker"},
		{"findings are apart", "a a,b a,b b b", "- began:a began:b - ended:a"},
		{"by what they are about", "sagas/a sagas/a,sagas/b sagas/a,sagas/b sagas/b sagas/b", "- began:sagas/a began:sagas/b - ended:sagas/a"},
		{"two of one kind are one", "slots,slots slots,slots slots slots", "- began:slots - -"},
		{"several at once, in order", "b,a a,b", "- began:a,began:b"},
		{"nothing ends while the store is away", "a a ?store ?store ?store a a", "- began:a - began:store - - ended:store"},
		{"what has ended meanwhile ends afterwards", "a a ?store ?store - -", "- began:a - began:store - ended:a,ended:store"},
		{"and what is new is not forgotten meanwhile", "a ? a", "- - began:a"},
		{"a check that could not read everything still finds", "?a ?a", "- began:a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, want := State{}.WithChannels("mail"), strings.Fields(tt.want)
			for i, check := range strings.Fields(tt.checks) {
				c := Check{At: start.Add(time.Duration(i) * time.Second)}
				check, c.Partial = strings.CutPrefix(check, "?")
				if check != "-" && check != "" {
					c.Findings = findings(strings.Split(check, ",")...)
				}
				before := s
				copied := clone(t, before)
				var alerts []Alert
				s, alerts = s.Next(c, Holds)
				if got := written(alerts); got != want[i] {
					t.Errorf("check %d announces %s, want %s", i+1, got, want[i])
				}
				if check == "-" && slices.ContainsFunc(s.Findings, func(k Known) bool { return !k.Announced }) {
					t.Errorf("check %d finds nothing, and %+v is remembered", i+1, s.Findings)
				}
				if !reflect.DeepEqual(clone(t, before), copied) {
					t.Errorf("check %d changes the state before it", i+1)
				}
				s = clone(t, s) // as after a restart with the state kept
			}
		})
	}
}

func written(alerts []Alert) string {
	var list []string
	for _, a := range alerts {
		list = append(list, strings.TrimSuffix(fmt.Sprintf("%s:%s/%s", a.Event, a.Subject, a.About), "/"))
	}
	if list == nil {
		return "-"
	}
	return strings.Join(list, ",")
}

// clone returns what is left of a state after it was written and read.
func clone(t *testing.T, s State) (read State) {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// TestNext_Alert: an alert has the newest texts, since when it is found and until when it was; the queue of
// every channel gets it.
func TestNext_Alert(t *testing.T) {
	t.Parallel()
	s := State{}.WithChannels("mail", "slack")
	var alerts []Alert
	for i, found := range []string{"1 letter", "2 letters", "3 letters", "", ""} {
		c := Check{At: start.Add(time.Duration(i) * time.Minute)}
		if found != "" {
			c.Findings = []Finding{{Severity: "warning", Subject: "dead letters", Found: found, Advice: "see"}}
		}
		var some []Alert
		s, some = s.Next(c, Holds)
		alerts = append(alerts, some...)
	}
	if len(alerts) != 2 {
		t.Fatalf("%d alerts, want two", len(alerts))
	}
	began, ended := alerts[0], alerts[1]
	if began.Found != "2 letters" || !began.Since.Equal(start) || !began.Until.IsZero() {
		t.Errorf("began = %+v", began)
	}
	if ended.Found != "3 letters" || !ended.Since.Equal(start) || !ended.Until.Equal(start.Add(3*time.Minute)) {
		t.Errorf("ended = %+v", ended)
	}
	if began.ID == ended.ID || began.ID == "" || strings.ContainsAny(began.ID+ended.ID, " .") {
		t.Errorf("ids are %q and %q", began.ID, ended.ID)
	}
	for _, channel := range []string{"mail", "slack"} {
		if got := s.Queues[channel].Alerts; !reflect.DeepEqual(got, alerts) {
			t.Errorf("the queue of %s has %s", channel, written(got))
		}
	}
	if s := s.WithChannels("slack", "webhook"); len(s.Queues) != 2 || len(s.Queues["slack"].Alerts) != 2 || len(s.Queues["webhook"].Alerts) != 0 {
		t.Errorf("with other channels: %+v", s.Queues)
	}
}

// TestNext_Present: with one check in a row everything that is found now is announced, and what is not has ended.
func TestNext_Present(t *testing.T) {
	t.Parallel()
	s := State{Findings: []Known{{Finding: findings("old")[0], Since: start, Announced: true}, {Finding: findings("broker")[0], Since: start, Announced: true}}}
	_, alerts := s.Next(Check{At: start.Add(time.Hour), Findings: append(findings("broker", "new"), findings("new")...)}, 1)
	if got := written(alerts); got != "ended:old,began:new" || alerts[1].Found != "found (and 1 more)" {
		t.Errorf("announced: %s, %+v", got, alerts)
	}
}

func alerts(n int) []Alert {
	list := make([]Alert, n)
	for i := range list {
		list[i].ID = fmt.Sprint(i)
	}
	return list
}

func TestQueue(t *testing.T) {
	t.Parallel()
	q := Queue{Alerts: alerts(mostAtOnce + 2)}
	if due := q.Due(start); len(due) != mostAtOnce || due[0].ID != "0" {
		t.Fatalf("%d are due, want the first %d", len(due), mostAtOnce)
	}
	if q = q.Delivered(); len(q.Due(start)) != 2 || q.Due(start)[0].ID != "20" {
		t.Fatalf("after that %+v are due, want the other two", q.Due(start))
	}
	now := start
	for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute} {
		q = q.Failed(now)
		q.Alerts = append(q.Alerts, Alert{ID: "later"})
		if due := q.Due(now.Add(want - 1)); len(due) != 0 {
			t.Errorf("after %d failures it is tried again before %v", q.Failures, want)
		}
		now = now.Add(want)
		if due := q.Due(now); len(due) != 2 || due[0].ID != "20" {
			t.Errorf("after %d failures %+v are due, want the same two", q.Failures, due)
		}
	}
	q = q.Delivered()
	if due := q.Due(start); len(due) != 8 || due[0].ID != "later" || q.Failures != 0 {
		t.Errorf("afterwards %d are due, want what has come meanwhile, at once", len(due))
	}
	for range 100 {
		q = q.Failed(now)
	}
	if !q.NotBefore.Equal(now.Add(backoffMax)) {
		t.Errorf("after 100 failures it waits until %v, want %v", q.NotBefore, now.Add(backoffMax))
	}
	if due := (Queue{}).Due(start); len(due) != 0 {
		t.Errorf("of an empty queue %d are due", len(due))
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	s := State{Queues: map[string]Queue{"a": {}, "b": {Alerts: alerts(2), NotBefore: start.Add(time.Minute)}, "c": {Alerts: alerts(1), NotBefore: start}}}
	if n, next := s.Waiting(); n != 3 || !next.Equal(start) {
		t.Errorf("Waiting() = %d, %v, want 3 and the first", n, next)
	}
	if n, _ := s.With("b", Queue{}).Waiting(); n != 1 || len(s.Queues["b"].Alerts) != 2 {
		t.Errorf("With() leaves %d, want 1, and the state as it was", n)
	}
}
