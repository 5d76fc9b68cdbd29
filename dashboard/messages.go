package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/outbox"
)

const (
	lettersOfMessage = 20 // of each state
	entriesOfMessage = 200
)

// message is what the page about one message shows.
type message struct {
	ID      string
	States  []outbox.State
	Letters []deadletter.Letter
	Life    []happening

	CanAskInbox, AskedInbox bool
	Inbox                   []inbox.State
}

// happening is one line of a message's life.
type happening struct {
	At     time.Time
	What   string
	By     string
	Detail string
	Letter int64 // it is about, 0 if none
}

// messages shows one message, or the list that the URL asks for.
func (d *Dashboard) messages(c *call) error {
	m := message{ID: strings.TrimSpace(c.r.URL.Query().Get("id")), CanAskInbox: c.inbox != nil}
	switch {
	case m.ID == "" && isSearch(c.r.URL.Query()):
		return d.searchMessages(c)
	case m.ID == "":
		return c.show(http.StatusOK, "search", "Messages", search{Statuses: outbox.Statuses()})
	}
	if len(m.ID) > waybill.MaxIDLen {
		return &problem{http.StatusBadRequest, "Refused", fmt.Sprintf("An id has at most %d bytes.", waybill.MaxIDLen)}
	}
	entries, err := d.readLife(c, &m)
	if err != nil {
		return err
	}
	m.Life = append(lifeOf(m.States, m.Letters, entries), lifeInInbox(m.Inbox)...)
	slices.SortStableFunc(m.Life, func(a, b happening) int { return a.At.Compare(b.At) })
	status := http.StatusOK
	if len(m.Life) == 0 {
		status = http.StatusNotFound
	}
	return c.show(status, "messages", "Message "+short(60, m.ID), m)
}

// readLife reads everything that is known of a message.
func (d *Dashboard) readLife(c *call, m *message) (entries []deadletter.Entry, err error) {
	ctx := c.r.Context()
	if m.States, err = c.outbox.MessageStates(ctx, m.ID); err != nil {
		return nil, err
	}
	for _, state := range []deadletter.State{deadletter.Open, deadletter.Resolved, deadletter.Discarded} {
		list, err := c.letters.DeadLetters(ctx, deadletter.Filter{MessageID: m.ID, State: state, Newest: true, Limit: lettersOfMessage})
		if err != nil {
			return nil, err
		}
		for _, l := range list {
			full, err := c.letters.DeadLetter(ctx, l.Number)
			if err != nil {
				full = l // it has gone in the meantime
			}
			m.Letters = append(m.Letters, full)
		}
	}
	// Asking the inbox may read all of it: only on demand.
	if m.AskedInbox = m.CanAskInbox && c.r.URL.Query().Has("inbox"); m.AskedInbox {
		if m.Inbox, err = c.inbox.InboxStates(ctx, m.ID, ""); err != nil {
			return nil, err
		}
	}
	return c.letters.AuditLog(ctx, deadletter.AuditFilter{MessageID: m.ID, Limit: entriesOfMessage})
}

// lifeOf is what happened to a message outside of inboxes.
func lifeOf(states []outbox.State, letters []deadletter.Letter, entries []deadletter.Entry) []happening {
	var life []happening
	enqueued := make(map[time.Time]bool)
	for _, s := range states {
		if !enqueued[s.EnqueuedAt] { // several destinations have one enqueue
			enqueued[s.EnqueuedAt] = true
			life = append(life, happening{At: s.EnqueuedAt, What: "enqueued", Detail: "topic " + s.Topic})
		}
		if s.PublishedAt != nil {
			life = append(life, happening{At: *s.PublishedAt, What: "published", Detail: s.Destination})
		}
	}
	for _, l := range letters {
		for _, a := range l.History {
			life = append(life, happening{At: a.At, What: "attempt failed", By: a.Node, Detail: a.Error, Letter: l.Number})
		}
		life = append(life, happening{At: l.LastFailed, What: "dead-lettered", By: giver(l), Detail: l.Error, Letter: l.Number})
	}
	for _, e := range entries {
		life = append(life, happening{At: e.At, What: string(e.Action), By: e.By, Detail: strings.TrimSpace(e.Why + " " + e.Detail), Letter: e.Letter})
	}
	return life
}

// lifeInInbox says which consumers have handled a message, and when.
func lifeInInbox(states []inbox.State) []happening {
	var life []happening
	for _, s := range states {
		switch {
		case s.ProcessedAt != nil:
			life = append(life, happening{At: *s.ProcessedAt, What: "processed", By: s.Consumer})
		case s.DueAt != nil:
			life = append(life, happening{At: *s.DueAt, What: "next attempt", By: s.Consumer, Detail: s.Error})
		}
	}
	return life
}

// giver is who gave up on a letter's message.
func giver(l deadletter.Letter) string {
	return strings.TrimSpace(string(l.Origin) + " " + cmp.Or(l.Consumer, l.Destination))
}
