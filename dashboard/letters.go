package dashboard

import (
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
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

// letterList is what the list of letters shows.
type letterList struct {
	Filter     deadletter.Filter
	Asked      url.Values // the filter as it was given
	Conditions []condition
	Query      template.URL // the filter, for links
	Letters    []deadletter.Letter
	Next       int64  // after which the next page begins, 0 for none
	Wrong      string // why the filter can't be answered
}

// Reach is in how many letters a text alone is looked for.
func (letterList) Reach() int { return deadletter.TextReach }

// Given returns a field of the filter as it was given.
func (l letterList) Given(name string) string { return l.Asked.Get(name) }

func (d *Dashboard) letters(c *call) error {
	asked := c.r.URL.Query()
	f, err := readFilter(asked)
	l := letterList{Filter: f, Asked: asked, Conditions: conditions(f), Query: queryOf(f)}
	var refused *waybill.InvalidError
	if errors.As(err, &refused) {
		l.Wrong = refused.Field + " " + refused.Reason
		return c.show(http.StatusBadRequest, "letters", "Dead letters", l)
	}
	f.Limit = lettersOnPage + 1 // one more tells whether there is another page
	if l.Letters, err = c.letters.DeadLetters(c.r.Context(), f); err != nil {
		return err
	}
	if len(l.Letters) > lettersOnPage {
		l.Letters = l.Letters[:lettersOnPage]
		l.Next = l.Letters[lettersOnPage-1].Number
	}
	return c.show(http.StatusOK, "letters", "Dead letters", l)
}

// letterPage is what the page of one letter shows. Letter is nil if it is not there any more.
type letterPage struct {
	Number int64
	Letter *deadletter.Letter
	From   string
	Facts  []fact
	Offers []offer
	confidential
	Entries []deadletter.Entry
	Message string // id, as far as it is known
}

func (d *Dashboard) letter(c *call) error {
	page, err := d.readLetter(c)
	if err != nil {
		return err
	}
	return c.showLetter(page)
}

func (c *call) showLetter(p letterPage) error {
	status := http.StatusOK
	if p.Letter == nil {
		status = http.StatusNotFound
	}
	return c.show(status, "letter", "Dead letter "+strconv.FormatInt(p.Number, 10), p)
}

// readLetter reads a letter, or what the audit log knows of one that is not there any more.
func (d *Dashboard) readLetter(c *call) (letterPage, error) {
	number, err := c.number()
	if err != nil {
		return letterPage{}, err
	}
	page := letterPage{Number: number}
	letter, err := c.letters.DeadLetter(c.r.Context(), number)
	switch {
	case err == nil:
		page.Letter, page.From, page.Message = &letter, ops.From(&letter), letter.Message.ID
		page.confidential = confidential{Form: fmt.Sprintf("dead/%d/reveal", number), Headers: ops.HeaderNames(&letter.Message)}
		page.Facts = linked(ops.LetterFacts(&letter), "number", "state", "failed in", "reason", "error", "failed attempts", "settled", "resolution", "headers", "payload")
		page.Offers = c.offers(ops.LetterVerbs(&letter), fmt.Sprintf("dead/%d/", number), nil)
	case !errors.Is(err, waybill.ErrNotFound):
		return page, err
	}
	page.Entries, err = c.entriesOf(number)
	if err == nil && page.Letter == nil && len(page.Entries) > 0 {
		page.Message = page.Entries[0].MessageID
	}
	return page, err
}

func (c *call) entriesOf(letter int64) ([]deadletter.Entry, error) {
	return c.letters.AuditLog(c.r.Context(), deadletter.AuditFilter{Letter: letter, Limit: entriesOnPage})
}

// revealLetter shows the payload, after it was recorded who looks at it.
func (d *Dashboard) revealLetter(c *call) error {
	page, err := d.readLetter(c)
	if err != nil {
		return err
	}
	if page.Letter == nil {
		return waybill.ErrNotFound
	}
	m := &page.Letter.Message
	if err := c.reveal(&page.confidential, deadletter.Entry{Letter: page.Number, MessageID: m.ID}, m.Payload, m.Headers); err != nil {
		return err
	}
	if page.Entries, err = c.entriesOf(page.Number); err != nil {
		return err
	}
	return c.showLetter(page)
}

// auditPage is what the audit log shows.
type auditPage struct {
	Asked   url.Values
	Actions []deadletter.Action
	Entries []deadletter.Entry
	Next    template.URL // query of the next page
}

// Given returns a field of the filter as it was given.
func (p auditPage) Given(name string) string { return p.Asked.Get(name) }

func (d *Dashboard) audit(c *call) error {
	q := c.r.URL.Query()
	page := auditPage{Asked: q, Actions: ops.Actions()}
	f := deadletter.AuditFilter{Action: deadletter.Action(q.Get("action")), By: q.Get("by"), MessageID: q.Get("message"), Limit: entriesOnPage}
	for name, field := range map[string]*int64{"letter": &f.Letter, "replay": &f.Replay, "before": &f.Before} {
		if text := q.Get(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return invalidField(name, "is not a number")
			}
			*field = n
		}
	}
	var err error
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
