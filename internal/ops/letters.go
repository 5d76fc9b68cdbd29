package ops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill/deadletter"
)

// From says where a dead letter's message failed.
func From(l *deadletter.Letter) string {
	return strings.TrimSpace(string(l.Origin) + " " + cmp.Or(l.Consumer, l.Destination))
}

// GroupFrom says where the messages of a group failed, and where a relay's were going.
func GroupFrom(g *deadletter.Group) string {
	if g.Origin == deadletter.FromRelay {
		return "relay to " + g.Topic
	}
	return "consumer " + g.Consumer
}

// Conditions are the reason of a dead letter, and its further conditions.
func Conditions(l *deadletter.Letter) []string {
	return append([]string{string(l.Reason)}, beyondReason(l)...)
}

func beyondReason(l *deadletter.Letter) (list []string) {
	if l.Failed {
		list = append(list, "failed for good")
	}
	switch {
	case l.Requeued:
		list = append(list, "requeued")
	case l.State != "" && l.State != deadletter.Open:
		list = append(list, string(l.State))
	}
	if l.Parks {
		list = append(list, fmt.Sprintf("parks its key with %d behind", l.Behind))
	}
	return list
}

// LetterState is the state of a dead letter, and its further conditions.
func LetterState(l *deadletter.Letter) string {
	list := beyondReason(l)
	if l.State == deadletter.Open {
		list = slices.Insert(list, 0, string(l.State))
	}
	return strings.Join(list, ", ")
}

// LetterVerbs are the verbs for a dead letter, except those that already run.
func LetterVerbs(l *deadletter.Letter) []Verb {
	if l.Requeued {
		return nil
	}
	return verbs(Letter, func(v Verb) bool {
		switch v.Name {
		case "delete":
			return true
		case "restore":
			return l.State != deadletter.Open
		}
		return l.State == deadletter.Open
	})
}

// verbs are those of a noun that apply.
func verbs(noun Noun, applies func(Verb) bool) (list []Verb) {
	for _, v := range Verbs {
		if v.Noun == noun && applies(v) {
			list = append(list, v)
		}
	}
	return list
}

// LetterRow is a dead letter in JSON output.
type LetterRow struct {
	deadletter.Letter
	MessageID string `json:"message_id"`
	Topic     string `json:"topic"`
	Type      string `json:"type"`
	Source    string `json:"source"`
	Tenant    string `json:"tenant"`
	Key       string `json:"key,omitempty"`
}

// LetterRowOf returns the row of a dead letter.
func LetterRowOf(l deadletter.Letter) LetterRow {
	m := &l.Message
	return LetterRow{Letter: l, MessageID: m.ID, Topic: m.Address(), Type: m.Type, Source: m.Source, Tenant: m.Tenant, Key: m.Key}
}

// LetterRows returns the rows of several dead letters.
func LetterRows(letters []deadletter.Letter) []LetterRow {
	rows := make([]LetterRow, len(letters))
	for i, l := range letters {
		rows[i] = LetterRowOf(l)
	}
	return rows
}

// Consumer is a consumer with open dead letters.
type Consumer struct {
	Name       string
	Open       int
	Groups     int
	Trend      [24]int
	LastFailed time.Time
	Worst      deadletter.Group // its largest
}

// Consumers sums groups up by consumer, the one with the most open dead letters first.
func Consumers(groups []deadletter.Group) []Consumer {
	var rows []Consumer
	at := make(map[string]int)
	for _, g := range groups {
		if g.Origin != deadletter.FromConsumer {
			continue
		}
		i, known := at[g.Consumer]
		if !known {
			i = len(rows)
			at[g.Consumer] = i
			rows = append(rows, Consumer{Name: g.Consumer})
		}
		rows[i].add(g)
	}
	slices.SortFunc(rows, func(a, b Consumer) int { return cmp.Or(cmp.Compare(b.Open, a.Open), cmp.Compare(a.Name, b.Name)) })
	return rows
}

func (r *Consumer) add(g deadletter.Group) {
	r.Open += g.Open
	r.Groups++
	if g.Open > r.Worst.Open {
		r.Worst = g
	}
	if g.LastFailed.After(r.LastFailed) {
		r.LastFailed = g.LastFailed
	}
	for hour, n := range g.Trend {
		r.Trend[hour] += n
	}
}
