package ops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
)

// Severity is how bad a finding is.
type Severity string

// All severities, the gravest last.
const (
	OK      Severity = "ok"
	Note    Severity = "note"    // worth knowing; nothing to do now
	Warning Severity = "warning" // it works, but needs attention
	Problem Severity = "problem" // it does not work, or not for long
)

// Finding is the result of one check.
type Finding struct {
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"`
	Found    string   `json:"found"`            // with numbers
	Advice   string   `json:"advice,omitempty"` // what to do, if it is not ok
}

// gravity orders severities; one that is not known is above all others.
func gravity(s Severity) int {
	levels := []Severity{OK, Note, Warning, Problem}
	if i := slices.Index(levels, s); i >= 0 {
		return i
	}
	return len(levels)
}

// ByGravity orders findings with the worst first.
func ByGravity(a, b Finding) int { return cmp.Compare(gravity(b.Severity), gravity(a.Severity)) }

// Worst returns the gravest severity of findings; notes do not count.
func Worst(findings []Finding) Severity {
	worst := OK
	for _, f := range findings {
		if f.Severity != Note && gravity(f.Severity) > gravity(worst) {
			worst = f.Severity
		}
	}
	return worst
}

// IsTrouble reports whether a finding needs attention.
func IsTrouble(f Finding) bool { return gravity(f.Severity) >= gravity(Warning) }

// AnyAlive reports whether a relay is alive.
func AnyAlive(relays []inspect.RelayState) bool {
	return slices.ContainsFunc(relays, func(n inspect.RelayState) bool { return n.Alive })
}

// RelayState returns the state of a relay, or of the lanes without an owner, which have no node.
func RelayState(n *inspect.RelayState) string {
	switch {
	case n.Node == "":
		return "no owner"
	case n.Alive:
		return "alive"
	}
	return "dead"
}

// RelayCounts sums up relays and lanes.
type RelayCounts struct {
	Relays  []inspect.RelayState // without the lanes that have no owner
	Alive   int
	Lanes   int   // owned by relays that are alive
	Unowned []int // lanes without an owner
}

// CountRelays sums relays up.
func CountRelays(states []inspect.RelayState) (c RelayCounts) {
	for _, r := range states {
		if r.Node == "" {
			c.Unowned = r.Lanes
			continue
		}
		c.Relays = append(c.Relays, r)
		if r.Alive {
			c.Alive++
			c.Lanes += len(r.Lanes)
		}
	}
	return c
}

// CheckRelays checks whether every lane has an owner.
func CheckRelays(c RelayCounts) []Finding {
	switch {
	case c.Alive == 0:
		return []Finding{{Problem, "relays", "No relay is running", "Start one, or nothing is published."}}
	case len(c.Unowned) > 0:
		return []Finding{{Warning, "lanes", Plural(len(c.Unowned), "lane") + " owned by nobody", "A relay takes them within seconds; if it stays so, look at its log."}}
	}
	return nil
}

// pendingLimit is the age at which a message without an attempt means that no relay works.
const pendingLimit = time.Minute

// CheckPending checks whether pending messages are being published. alive says whether a relay is known to be alive.
func CheckPending(stats []inspect.Stats, alive bool) Finding {
	var count int64
	var oldest time.Duration
	for _, s := range stats {
		if s.Status == inspect.Pending {
			count += s.Count
			oldest = max(oldest, s.Oldest)
		}
	}
	if count == 0 {
		return Finding{Severity: OK, Subject: "pending", Found: "no message waits for the relay"}
	}
	f := Finding{Severity: OK, Subject: "pending", Found: fmt.Sprintf("%s, the oldest is %s old", Plural(count, "message"), Age(oldest))}
	if oldest <= pendingLimit {
		return f
	}
	f.Severity, f.Advice = Warning, "is a relay running? see: waybill relay status"
	if alive {
		f.Advice = "a relay is alive: its log and /health/ready say whether the broker takes what it publishes, or what it stores of that fails"
	}
	return f
}

// ownersNamed is how many owners of dead letters are named.
const ownersNamed = 5

// CheckDead counts the dead letters that wait for a decision, by the relay or consumer that dead-lettered them.
func CheckDead(stats []inspect.Stats) Finding {
	counts := make(map[string]int)
	total := 0
	for _, s := range stats {
		if s.Status == inspect.Dead || s.Status == inspect.Failed {
			counts[s.Consumer] += int(s.Count)
			total += int(s.Count)
		}
	}
	if total == 0 {
		return Finding{Severity: OK, Subject: "dead letters", Found: "none is open"}
	}
	owners := make([]string, 0, len(counts))
	for owner := range counts {
		owners = append(owners, owner)
	}
	slices.SortFunc(owners, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	var parts []string
	for _, owner := range owners[:min(len(owners), ownersNamed)] {
		name := "the relay"
		if owner != "" {
			name = "consumer " + owner
		}
		parts = append(parts, fmt.Sprintf("%s of %s", Count(counts[owner]), name))
	}
	if more := len(owners) - len(parts); more > 0 {
		parts = append(parts, "others of "+Plural(more, "consumer"))
	}
	return Finding{Warning, "dead letters", fmt.Sprintf("%s: %s", Plural(total, "open letter"), strings.Join(parts, ", ")), "see: waybill dead groups"}
}

// Topic holds the counts of a topic's messages in the outbox.
type Topic struct {
	Topic                                           string
	Pending, Waiting, Scheduled, Published, GivenUp int64
	Oldest                                          time.Duration // of pending or waiting messages
}

// Topics sums statistics up by topic, the one with the most to do first. The total has no topic; its Oldest is that of
// pending messages.
func Topics(stats []inspect.Stats) (topics []Topic, total Topic) {
	rows := make(map[string]*Topic)
	for _, s := range stats {
		row := rows[s.Topic]
		if row == nil {
			row = &Topic{Topic: s.Topic}
			rows[s.Topic] = row
		}
		switch s.Status {
		case inspect.Pending:
			row.Pending, row.Oldest = s.Count, max(row.Oldest, s.Oldest)
			total.Pending, total.Oldest = total.Pending+s.Count, max(total.Oldest, s.Oldest)
		case inspect.Waiting:
			row.Waiting, row.Oldest = s.Count, max(row.Oldest, s.Oldest)
			total.Waiting += s.Count
		case inspect.Scheduled:
			row.Scheduled = s.Count
		case inspect.Published:
			row.Published = s.Count
		case inspect.Dead, inspect.Failed:
			row.GivenUp += s.Count
		}
	}
	for _, row := range rows {
		topics = append(topics, *row)
	}
	slices.SortFunc(topics, func(a, b Topic) int {
		return cmp.Or(cmp.Compare(b.Pending+b.Waiting+b.GivenUp, a.Pending+a.Waiting+a.GivenUp), cmp.Compare(a.Topic, b.Topic))
	})
	return topics, total
}

// OpenLetters counts the dead letters in groups.
func OpenLetters(groups []deadletter.Group) (open int) {
	for _, g := range groups {
		open += g.Open
	}
	return open
}

// PlaceOf returns where a finding about a subject is acted upon: the page of the dashboard, "" if there is none, and
// the section of the documentation.
func PlaceOf(subject string) (page, section string) {
	switch subject {
	case "store":
		return "", "runbooks.md#database-failover"
	case "broker":
		return "", "runbooks.md#broker-down"
	case "pending":
		return "messages?status=Pending", "runbooks.md#backlog-grows"
	case "relays", "lanes":
		return "relays", "runbooks.md#backlog-grows"
	case "dead letters", "unroutable":
		return "dead", "runbooks.md#dead-letters-appear"
	case "sagas":
		return "sagas", "runbooks.md#a-saga-is-stuck"
	case "schedules", "scheduled":
		return "schedules", "runbooks.md#schedules-are-late"
	case "transactions", "vacuum":
		return "", "operations.md#open-transactions"
	}
	if number, ok := strings.CutPrefix(subject, "replay "); ok {
		return "replays/" + number, "replay.md"
	}
	return "", "operations.md#what-doctor-says"
}
