// Package alert decides which findings of repeated checks people are alerted to, and when: once when a
// finding has begun, and once when it has ended. It does no I/O and has no clock: the result of a check goes
// in, alerts come out, and all that is remembered in between is a [State], which can be kept as JSON.
//
// Two checks in a row must agree before anything is announced, so that a finding that comes and goes with each
// check is not announced at all.
package alert

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Holds is how many checks in a row must agree before a finding, or its end, is announced.
const Holds = 2

// Finding is something that a check has found wrong. Subject and About identify it: its texts may change from
// one check to the next.
type Finding struct {
	Severity  string `json:"severity"`
	Subject   string `json:"subject"`
	About     string `json:"about,omitempty"` // which one, where a subject may have several findings at a time
	Found     string `json:"found"`           // with numbers
	Advice    string `json:"advice"`          // what to do
	Dashboard string `json:"dashboard,omitempty"`
	Runbook   string `json:"runbook,omitempty"`
}

func (f Finding) is(other Finding) bool { return f.Subject == other.Subject && f.About == other.About }

// Check is the result of one check.
type Check struct {
	At       time.Time
	Findings []Finding

	// Partial says that not everything could be read: what is not among Findings may be there, and nothing
	// ends by this check.
	Partial bool
}

// Event is what an alert announces.
type Event string

// The events.
const (
	Began Event = "began"
	Ended Event = "ended"
)

// Alert announces that a finding has begun, or ended.
type Alert struct {
	ID      string    `json:"id"` // the same for each attempt to deliver it
	Event   Event     `json:"event"`
	Finding           // as it was last found
	Since   time.Time `json:"since"`          // of the first check that found it
	Until   time.Time `json:"until,omitzero"` // of the first check that did not find it any more; zero if it has begun
}

// State is what is remembered between checks. The zero value remembers nothing and has no channels.
type State struct {
	Findings []Known          `json:"findings"`
	Queues   map[string]Queue `json:"queues"` // by the name of the channel
}

// Known is a finding that was announced, or will be if it holds.
type Known struct {
	Finding   Finding   `json:"finding"`
	Since     time.Time `json:"since"`
	Gone      time.Time `json:"gone,omitzero"` // of the first check in a row that did not find it; zero if the last one did
	Announced bool      `json:"announced"`
	Against   int       `json:"against"` // how many checks in a row disagree with what was announced
}

// WithChannels returns the state with a queue for each of these channels, and for no others.
func (s State) WithChannels(names ...string) State {
	queues := make(map[string]Queue, len(names))
	for _, name := range names {
		queues[name] = s.Queues[name]
	}
	return State{Findings: s.Findings, Queues: queues}
}

// Next returns the state after a check, with new alerts at the end of every queue, and these alerts. What holds
// checks in a row have in common is announced, [Holds] unless somebody asks for the present only.
func (s State) Next(c Check, holds int) (State, []Alert) {
	found := merge(c.Findings)
	var known []Known
	var alerts []Alert
	for _, k := range s.Findings {
		i := slices.IndexFunc(found, k.Finding.is)
		if i < 0 && c.Partial {
			known = append(known, k)
			continue
		}
		if i < 0 {
			k = k.missed(c.At)
		} else {
			k = k.seen(found[i])
			found = slices.Delete(found, i, i+1)
		}
		k, alerts = k.decide(holds, alerts)
		if k.Announced || k.Gone.IsZero() {
			known = append(known, k)
		}
	}
	for _, f := range found {
		k := Known{Finding: f, Since: c.At}.seen(f)
		k, alerts = k.decide(holds, alerts)
		known = append(known, k)
	}
	return State{Findings: known, Queues: enqueue(s.Queues, alerts)}, alerts
}

// seen returns the finding after a check that found it.
func (k Known) seen(f Finding) Known {
	k.Finding, k.Gone = f, time.Time{}
	return k.count(k.Announced)
}

// missed returns the finding after a check that did not find it.
func (k Known) missed(at time.Time) Known {
	if k.Gone.IsZero() {
		k.Gone = at
	}
	return k.count(!k.Announced)
}

// count notes whether a check agrees with what was announced.
func (k Known) count(agrees bool) Known {
	if k.Against++; agrees {
		k.Against = 0
	}
	return k
}

// decide announces what has held for long enough.
func (k Known) decide(holds int, alerts []Alert) (Known, []Alert) {
	if k.Against < holds {
		return k, alerts
	}
	k.Announced, k.Against = !k.Announced, 0
	a := Alert{Event: Began, Finding: k.Finding, Since: k.Since}
	if !k.Announced {
		a.Event, a.Until = Ended, k.Gone
	}
	a.ID = idOf(a)
	return k, append(alerts, a)
}

// idOf returns a name for an alert, made of what it announces, so that it is the same after a restart.
func idOf(a Alert) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %d", a.Event, a.Subject, a.About, a.Since.UnixNano(), a.Until.UnixNano()))
	return fmt.Sprintf("%s-%x", a.Event, sum[:8])
}

// merge makes one finding of those that are the same, and orders them, so that the outcome depends on no order.
func merge(findings []Finding) []Finding {
	var list []Finding
	more := make(map[int]int)
	for _, f := range findings {
		if i := slices.IndexFunc(list, f.is); i >= 0 {
			more[i]++
			continue
		}
		list = append(list, f)
	}
	for i, n := range more {
		list[i].Found += fmt.Sprintf(" (and %d more)", n)
	}
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Subject, b.Subject), strings.Compare(a.About, b.About))
	})
	return list
}
