package ops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
)

// Life is everything that a store knows about the messages with one id.
type Life struct {
	ID      string                 `json:"id"`
	States  []inspect.MessageState `json:"states"`
	Letters []LetterRow            `json:"letters"`
	Inbox   []inspect.InboxState   `json:"inbox"`
	Audit   []deadletter.Entry     `json:"audit"`
}

const (
	lettersOfMessage = 20 // of each state
	entriesOfMessage = 200
)

// Life reads the life of the messages with an id. It queries the inbox, which may read all of it, only on demand.
func (s Stores) Life(ctx context.Context, id string, askInbox bool) (l Life, err error) {
	l = Life{ID: id, Letters: []LetterRow{}}
	if l.States, err = s.Outbox.MessageStates(ctx, id); err != nil {
		return l, err
	}
	for _, state := range anyState {
		letters, err := s.Letters.DeadLetters(ctx, deadletter.Filter{MessageID: id, State: state, Newest: true, Limit: lettersOfMessage})
		if err != nil {
			return l, err
		}
		for _, letter := range slices.Backward(letters) {
			if full, err := s.Letters.DeadLetter(ctx, letter.Number); err == nil { // else it was deleted in the meantime
				letter = full
			}
			l.Letters = append(l.Letters, LetterRowOf(letter))
		}
	}
	if askInbox && s.Inbox != nil {
		if l.Inbox, err = s.Inbox.InboxStates(ctx, id, ""); err != nil {
			return l, err
		}
	}
	l.Audit, err = s.Letters.AuditLog(ctx, deadletter.AuditFilter{MessageID: id, Limit: entriesOfMessage})
	return l, err
}

// Unknown reports whether nothing is known.
func (l *Life) Unknown() bool { return len(l.States)+len(l.Letters)+len(l.Inbox)+len(l.Audit) == 0 }

// Event is one event of a message's life. One that has not happened yet has the time when it is due, or none.
type Event struct {
	At           time.Time
	What, Detail string
	Letter       int64 // of its dead letter, 0 if none
}

// Events returns the events, the earliest first. Those without a time come last.
func (l *Life) Events() []Event {
	events := slices.Concat(stateEvents(l.States), letterEvents(l.Letters), inboxEvents(l.Inbox))
	for _, e := range slices.Backward(l.Audit) {
		events = append(events, Event{e.At, string(e.Action) + " by " + e.By, strings.TrimSpace(e.Why + " " + e.Detail), e.Letter})
	}
	slices.SortStableFunc(events, func(a, b Event) int {
		switch {
		case a.At.IsZero() && !b.At.IsZero():
			return 1
		case b.At.IsZero() && !a.At.IsZero():
			return -1
		}
		return a.At.Compare(b.At)
	})
	return slices.Compact(events) // several destinations have one enqueue
}

func stateEvents(states []inspect.MessageState) (events []Event) {
	for _, s := range states {
		by := "by " + s.Source
		if s.Tenant != waybill.DefaultTenant {
			by += " for tenant " + s.Tenant
		}
		events = append(events, Event{At: s.EnqueuedAt, What: "enqueued", Detail: by})
		where := strings.TrimSpace(s.Topic + " " + s.Destination)
		if s.PublishedAt != nil {
			events = append(events, Event{At: *s.PublishedAt, What: "published", Detail: "to " + where})
		}
		if s.DueAt != nil {
			events = append(events, Event{At: *s.DueAt, What: "due", Detail: "for " + where})
		}
	}
	return events
}

func letterEvents(letters []LetterRow) (events []Event) {
	for i := range letters {
		l := &letters[i].Letter
		name := fmt.Sprintf("letter %d of %s", l.Number, From(l))
		for _, a := range l.History {
			events = append(events, Event{a.At, "attempt failed", strings.TrimSpace("on " + a.Node + ": " + a.Error), l.Number})
		}
		if len(l.History) == 0 && l.FirstFailed.Before(l.LastFailed) {
			events = append(events, Event{l.FirstFailed, "failed first", name, l.Number})
		}
		events = append(events, Event{l.LastFailed, "dead-lettered", fmt.Sprintf("%s, %s: %s", name, l.Reason, l.Error), l.Number})
	}
	return events
}

func inboxEvents(states []inspect.InboxState) (events []Event) {
	for _, s := range states {
		switch {
		case s.ProcessedAt != nil:
			events = append(events, Event{At: *s.ProcessedAt, What: "processed", Detail: "by consumer " + s.Consumer})
		case s.DeadAt != nil: // its dead letter says more
		case s.DueAt != nil:
			events = append(events, Event{At: *s.DueAt, What: "due again",
				Detail: fmt.Sprintf("for consumer %s after %s: %s", s.Consumer, Plural(s.Attempts, "failed attempt"), s.Error)})
		}
	}
	return events
}

// StateFacts describe where a message is.
func StateFacts(s *inspect.MessageState) []Fact {
	due := time.Time{}
	if s.DueAt != nil {
		due = *s.DueAt
	}
	return shown(
		Fact{Name: "id", Value: s.ID},
		Fact{Name: "status", Value: string(s.Status)},
		Fact{Name: "topic", Value: s.Topic},
		Fact{Name: "destination", Value: s.Destination},
		Fact{Name: "type", Value: s.Type},
		Fact{Name: "source", Value: s.Source},
		Fact{Name: "tenant", Value: s.Tenant},
		Fact{Name: "key", Value: s.Key},
		at("due", due),
		Fact{Name: "failed attempts", Value: nonZero(s.Attempts)},
		Fact{Name: "last error", Value: Short(s.Error, 200)},
	)
}

// FoundBy is a search for messages by something other than their id.
type FoundBy struct{ Key, CorrelationID, Text string }

// Search returns the messages of the outbox with the statuses, "" for those that are pending: most plus one if
// there are more.
func (s Stores) Search(ctx context.Context, f inspect.Filter, statuses []inspect.Status, most int) ([]inspect.MessageState, error) {
	var found []inspect.MessageState
	for _, f.Status = range statuses {
		if f.Limit = most + 1 - len(found); f.Limit == 0 {
			break
		}
		list, err := s.Outbox.OutboxMessages(ctx, f)
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	return found, nil
}

// IDs returns the ids of the messages that the outbox or a dead letter knows: more than most if there are more.
func (s Stores) IDs(ctx context.Context, by FoundBy, most int) ([]string, error) {
	var ids []string
	states, err := s.Search(ctx, inspect.Filter{Key: by.Key, CorrelationID: by.CorrelationID, Text: by.Text}, []inspect.Status{"", inspect.Published}, most)
	if err != nil {
		return nil, err
	}
	for _, st := range states {
		ids = append(ids, st.ID)
	}
	for _, state := range anyState {
		letters, err := s.Letters.DeadLetters(ctx, deadletter.Filter{
			State: state, Key: by.Key, CorrelationID: by.CorrelationID, Text: by.Text, Newest: true, Limit: most + 1,
		})
		if err != nil {
			return nil, err
		}
		for _, l := range letters {
			ids = append(ids, l.Message.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
