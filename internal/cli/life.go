package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/outbox"
)

// life is all that a store knows of the messages with one id.
type life struct {
	ID      string             `json:"id"`
	States  []outbox.State     `json:"states"`
	Letters []letterRow        `json:"letters"`
	Inbox   []inbox.State      `json:"inbox"`
	Audit   []deadletter.Entry `json:"audit"`
}

func lifeOf(ctx context.Context, store opener.Store, id string) (l life, err error) {
	l = life{ID: id, Letters: []letterRow{}}
	if l.States, err = store.MessageStates(ctx, id); err != nil {
		return l, err
	}
	for _, state := range []deadletter.State{deadletter.Open, deadletter.Resolved, deadletter.Discarded} {
		letters, err := store.DeadLetters(ctx, deadletter.Filter{MessageID: id, State: state})
		if err != nil {
			return l, err
		}
		for _, letter := range letters {
			l.Letters = append(l.Letters, letterRowOf(letter))
		}
	}
	if l.Inbox, err = store.InboxStates(ctx, id, ""); err != nil {
		return l, err
	}
	l.Audit, err = store.AuditLog(ctx, deadletter.AuditFilter{MessageID: id})
	return l, err
}

func (l *life) unknown() bool {
	return len(l.States)+len(l.Letters)+len(l.Inbox)+len(l.Audit) == 0
}

func (p *program) outboxShow(cmd *cobra.Command, store opener.Store, args []string) error {
	l, err := lifeOf(cmd.Context(), store, args[0])
	if err != nil {
		return err
	}
	if l.unknown() {
		return fmt.Errorf("there is no message with the id %q: it never was, or its retention is over", args[0])
	}
	if p.json {
		return p.printJSON(l)
	}
	for _, s := range l.States {
		if err := p.printState(s); err != nil {
			return err
		}
		fmt.Fprintln(p.stdout)
	}
	if err := p.printTable([]string{"WHEN", "WHAT", "DETAIL"}, l.events()); err != nil {
		return err
	}
	for _, letter := range l.Letters {
		if letter.State == deadletter.Open {
			p.hintf("Why it is dead: waybill dead show %d", letter.Number)
		}
	}
	return nil
}

func (p *program) printState(s outbox.State) error {
	attempts := ""
	if s.Attempts > 0 {
		attempts = thousands(s.Attempts)
	}
	return p.printFields([][2]string{
		{"id", s.ID},
		{"status", string(s.Status)},
		{"topic", s.Topic},
		{"destination", s.Destination},
		{"type", s.Type},
		{"source", s.Source},
		{"tenant", s.Tenant},
		{"key", s.Key},
		{"due", moment(s.DueAt)},
		{"failed attempts", attempts},
		{"last error", short(s.Error, 200)},
	})
}

// event is a line of a message's life.
type event struct {
	at           time.Time
	what, detail string
}

// events are the lines, the earliest first. What has no time yet comes last.
func (l *life) events() [][]string {
	events := slices.Concat(stateEvents(l.States), letterEvents(l.Letters), inboxEvents(l.Inbox))
	for _, e := range slices.Backward(l.Audit) {
		events = append(events, event{e.At, string(e.Action) + " by " + e.By, strings.TrimSpace(short(e.Why, 60) + " " + short(e.Detail, 60))})
	}
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(compareBool(a.at.IsZero(), b.at.IsZero()), a.at.Compare(b.at))
	})
	rows := make([][]string, len(events))
	for i, e := range events {
		rows[i] = []string{cmp.Or(moment(&e.at), "-"), e.what, e.detail}
	}
	return slices.CompactFunc(rows, slices.Equal)
}

func compareBool(a, b bool) int {
	if a == b {
		return 0
	}
	if a {
		return 1
	}
	return -1
}

func stateEvents(states []outbox.State) (events []event) {
	for _, s := range states {
		by := "by " + s.Source
		if s.Tenant != waybill.DefaultTenant {
			by += " for tenant " + s.Tenant
		}
		events = append(events, event{s.EnqueuedAt, "enqueued", by})
		if s.PublishedAt != nil {
			events = append(events, event{*s.PublishedAt, "published", strings.TrimSpace("to " + s.Topic + " " + s.Destination)})
		}
		if s.DueAt != nil {
			events = append(events, event{*s.DueAt, "due", strings.TrimSpace("for " + s.Topic + " " + s.Destination)})
		}
	}
	return events
}

func letterEvents(letters []letterRow) (events []event) {
	for _, l := range letters {
		name := fmt.Sprintf("letter %d of %s", l.Number, fromWhom(l.Letter))
		if l.FirstFailed.Before(l.LastFailed) {
			events = append(events, event{l.FirstFailed, "failed first", name})
		}
		events = append(events, event{l.LastFailed, "dead", fmt.Sprintf("%s, %s: %s", name, l.Reason, short(l.Error, 60))})
	}
	return events
}

func inboxEvents(states []inbox.State) (events []event) {
	for _, s := range states {
		switch {
		case s.ProcessedAt != nil:
			events = append(events, event{*s.ProcessedAt, "processed", "by consumer " + s.Consumer})
		case s.DeadAt != nil: // its letter says more
		case s.DueAt != nil:
			events = append(events, event{*s.DueAt, "due again", fmt.Sprintf("for consumer %s after %s: %s", s.Consumer, plural(s.Attempts, "failed attempt"), short(s.Error, 60))})
		}
	}
	return events
}
