package dashboard

import (
	"errors"
	"html/template"
	"maps"
	"net/http"
	"strconv"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
)

const (
	lettersOnPage = 50
	entriesOnPage = 100
)

// groupList is what the page of groups shows.
type groupList struct {
	Groups []deadletter.Group
	Full   bool // there may be more groups
}

func (d *Dashboard) groups(c *call) error {
	groups, err := c.letters.DeadLetterGroups(c.r.Context(), groupsShown)
	if err != nil {
		return err
	}
	return c.show(http.StatusOK, "groups", "Dead letters", groupList{groups, len(groups) == groupsShown})
}

// letterList is what the list of dead letters shows.
type letterList struct {
	query
	Filter     deadletter.Filter
	Conditions []condition
	Query      template.URL // the filter, for links
	Letters    []deadletter.Letter
	Next       int64 // after which the next page begins, 0 for none
}

// Reach is how many dead letters are searched for a text without further conditions.
func (letterList) Reach() int { return deadletter.TextReach }

func (d *Dashboard) letters(c *call) error {
	asked := c.r.URL.Query()
	f, err := readFilter(asked)
	l := letterList{query: query{Asked: asked}, Filter: f, Conditions: conditions(f), Query: queryOf(f)}
	if l.refuses(err) {
		return c.show(http.StatusBadRequest, "letters", "Dead letters", l)
	}
	f.Limit = lettersOnPage + 1 // one more tells whether there is another page
	list, err := c.letters.DeadLetters(c.r.Context(), f)
	if err != nil {
		return err
	}
	var last *deadletter.Letter
	if l.Letters, last = pageOf(list, lettersOnPage); last != nil {
		l.Next = last.Number
	}
	return c.show(http.StatusOK, "letters", "Dead letters", l)
}

// letterPage is what the page of one dead letter shows. Letter is nil if it no longer exists.
type letterPage struct {
	screen
	From      string
	MessageID string // as far as it is known
}

func (d *Dashboard) letter(c *call) error { return c.showLetter(false) }

// revealLetter shows the payload, after recording who views it.
func (d *Dashboard) revealLetter(c *call) error { return c.showLetter(true) }

// showLetter shows a dead letter, or what the audit log knows about one that no longer
// exists.
func (c *call) showLetter(looks bool) error {
	number, err := c.number()
	if err != nil {
		return err
	}
	title := "Dead letter " + strconv.FormatInt(number, 10)
	page := letterPage{}
	page.screen, err = c.screen(ops.Letter, ops.Target{Number: number}, looks,
		"number", "state", "failed in", "reason", "error", "failed attempts", "settled", "resolution", "headers", "payload")
	if errors.Is(err, waybill.ErrNotFound) && !looks {
		page.Letter = nil
		if page.Entries, err = c.letters.AuditLog(c.r.Context(), deadletter.AuditFilter{Letter: number, Limit: entriesOnPage}); err != nil {
			return err
		}
		if len(page.Entries) > 0 {
			page.MessageID = page.Entries[0].MessageID
		}
		return c.show(http.StatusNotFound, "letter", title, page)
	}
	if err != nil {
		return err
	}
	page.From = ops.From(page.Letter)
	return c.show(http.StatusOK, "letter", title, page)
}

// auditPage is what the audit log shows.
type auditPage struct {
	query
	Actions []deadletter.Action
	Entries []deadletter.Entry
	Next    template.URL // query of the next page
}

func (d *Dashboard) audit(c *call) error {
	q := c.r.URL.Query()
	page := auditPage{query: query{Asked: q}, Actions: ops.Actions()}
	f := deadletter.AuditFilter{Action: deadletter.Action(q.Get("action")), By: q.Get("by"), MessageID: q.Get("message"), Limit: entriesOnPage}
	var err error
	for name, field := range map[string]*int64{"letter": &f.Letter, "replay": &f.Replay, "before": &f.Before} {
		if *field, err = numberOf(q, name); err != nil {
			return err
		}
	}
	if page.Entries, err = c.letters.AuditLog(c.r.Context(), f); err != nil {
		return err
	}
	if len(page.Entries) == entriesOnPage {
		next := maps.Clone(q)
		next.Set("before", strconv.FormatInt(page.Entries[entriesOnPage-1].Number, 10))
		page.Next = template.URL(next.Encode())
	}
	return c.show(http.StatusOK, "audit", "Audit log", page)
}
