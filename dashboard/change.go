package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
)

// change is what can be done with a letter.
type change func(ctx context.Context, number int64, act deadletter.Act) (bool, error)

// notices are what a page says after a change, by what the URL says of it. The URL never
// carries a text to be shown.
var notices = map[string]string{
	"requeued":   "The letter was requeued and is pending.",
	"on-its-way": "Nothing was to be done: the letter is pending already.",
	"resolved":   "The letter was resolved.",
	"discarded":  "The letter was discarded.",
	"restored":   "The letter is open again.",
	"deleted":    "The letter was removed with its payload.",
	"settled":    "Nothing was to be done: that had been done before.",
	"edited":     "The corrected copy is pending, and the original is resolved.",
	"cancelled":  "The replay was cancelled.",
	"ended":      "Nothing was to be done: the replay had ended.",
	"started":    "The replay was started.",

	"paused":        "The schedule is paused.",
	"resumed":       "The schedule goes on.",
	"run":           "The schedule runs now, by this message. A relay takes it up at its next poll.",
	"removed":       "The schedule was removed.",
	"not-active":    "Nothing was to be done: the schedule is paused already, or has ended.",
	"not-paused":    "Nothing was to be done: the schedule is not paused.",
	"not-there":     "Nothing was to be done: there is no such schedule.",
	"unscheduled":   "The message was cancelled.",
	"not-scheduled": "Nothing was to be done: the message is not scheduled any more.",

	"tried-again": "The instance tries its compensation once more.",
	"compensates": "The steps of the instance are being undone.",
}

// notice says what was done, by the URL that the change has led to.
func notice(q url.Values) string {
	done := q.Get("done")
	if text := notices[done]; text != "" {
		return text
	}
	changed, errChanged := strconv.Atoi(q.Get("changed"))
	left, errLeft := strconv.Atoi(q.Get("left"))
	if done != "selected" || errChanged != nil || errLeft != nil {
		return ""
	}
	text := plural(changed, "letter") + " changed."
	if left > 0 {
		text += " " + plural(left, "letter") + " left as they were: pending, settled, gone, or behind an earlier message of their key."
	}
	return text
}

func (d *Dashboard) requeue(c *call) error {
	number, err := c.number()
	if err != nil {
		return err
	}
	before, err := c.letters.DeadLetter(c.r.Context(), number)
	if err != nil && !errors.Is(err, waybill.ErrNotFound) {
		return err
	}
	done, err := c.letters.RequeueDeadLetter(c.r.Context(), number, c.act())
	if err != nil {
		return err
	}
	outcome := "requeued"
	if !done {
		outcome = "on-its-way"
	}
	// A relay's letter is none any more; its message is what there is to watch.
	if id := before.Message.ID; id != "" {
		return c.redirect("messages?" + url.Values{"id": {id}, "done": {outcome}}.Encode())
	}
	return c.redirect("dead/" + strconv.FormatInt(number, 10) + "?done=" + outcome)
}

func (d *Dashboard) resolve(c *call) error {
	return c.settle(c.letters.ResolveDeadLetter, "resolved")
}

func (d *Dashboard) discard(c *call) error {
	return c.settle(c.letters.DiscardDeadLetter, "discarded")
}

func (d *Dashboard) restore(c *call) error {
	return c.settle(c.letters.RestoreDeadLetter, "restored")
}

func (d *Dashboard) remove(c *call) error {
	return c.settle(c.letters.DeleteDeadLetter, "deleted")
}

func (c *call) settle(do change, outcome string) error {
	number, err := c.number()
	if err != nil {
		return err
	}
	if c.act().Why == "" {
		return invalidField("why", "is required: say why, or how it was dealt with")
	}
	done, err := do(c.r.Context(), number, c.act())
	if err != nil {
		return err
	}
	if !done {
		outcome = "settled"
	}
	return c.redirect("dead/" + strconv.FormatInt(number, 10) + "?done=" + outcome)
}

// changeSelected does the same to each letter that is ticked in the list. What can't be done
// with one does not keep the others from it.
func (d *Dashboard) changeSelected(c *call) error {
	do, err := d.selectedChange(c)
	if err != nil {
		return err
	}
	numbers := c.r.PostForm["number"]
	if len(numbers) == 0 || len(numbers) > lettersOnPage {
		return invalidField("number", "is missing: tick the letters that are meant")
	}
	changed, left := 0, 0
	for _, text := range numbers {
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return invalidField("number", "is not a number")
		}
		done, err := do(c.r.Context(), number, c.act())
		switch {
		case done:
			changed++
		case err == nil || waybill.IsPermanent(err) || isTaken(err):
			left++
		default:
			return err
		}
	}
	back, err := url.ParseQuery(c.r.PostFormValue("filter"))
	if err != nil {
		back = make(url.Values)
	}
	back.Set("done", "selected")
	back.Set("changed", strconv.Itoa(changed))
	back.Set("left", strconv.Itoa(left))
	return c.redirect("dead/list?" + back.Encode())
}

// isTaken reports whether somebody else has done something with the letter.
func isTaken(err error) bool {
	return errors.Is(err, waybill.ErrNotFound) || errors.Is(err, deadletter.ErrResolved) ||
		errors.Is(err, deadletter.ErrRequeued) || errors.Is(err, deadletter.ErrBehind)
}

func (d *Dashboard) selectedChange(c *call) (change, error) {
	if err := c.act().Check(); err != nil {
		return nil, err
	}
	switch c.r.PostFormValue("do") {
	case "requeue":
		return c.letters.RequeueDeadLetter, nil
	case "resolve":
		if c.act().Why == "" {
			return nil, invalidField("why", "is required: say how they were dealt with")
		}
		return c.letters.ResolveDeadLetter, nil
	}
	return nil, invalidField("do", "is not requeue or resolve")
}

// editPage is the form in which a letter's message is corrected.
type editPage struct {
	Number                             int64
	Type, Address, ContentType, Schema string
	Headers, Payload                   string
	IsTo, IsHex, FixedHeaders          bool
	Why, Wrong                         string
}

// editForm shows the message in a form, which is a look at its payload.
func (d *Dashboard) editForm(c *call) error {
	page, err := d.readLetter(c)
	if err != nil {
		return err
	}
	if page.Letter == nil {
		return waybill.ErrNotFound
	}
	if page.Letter.State != deadletter.Open {
		return deadletter.ErrResolved
	}
	if err := c.recordReveal(deadletter.Entry{Letter: page.Letter.Number, MessageID: page.Letter.Message.ID, Detail: "to edit it"}); err != nil {
		return err
	}
	return c.show(http.StatusOK, "edit", "Edit dead letter "+strconv.FormatInt(page.Number, 10), newEditPage(page))
}

func newEditPage(page letterPage) editPage {
	m := &page.Letter.Message
	e := editPage{
		Number: page.Number, Type: m.Type, Address: m.Address(), ContentType: m.ContentType, Schema: m.DataSchema,
		IsTo: m.To != "", Headers: writeHeaders(page.Headers, m.Headers),
	}
	for _, value := range m.Headers {
		e.FixedHeaders = e.FixedHeaders || strings.ContainsAny(value, "\r\n") || value != strings.TrimSpace(value)
	}
	e.Payload, e.IsHex = editable(m.Payload)
	return e
}

func (d *Dashboard) saveEdit(c *call) error {
	number, err := c.number()
	if err != nil {
		return err
	}
	l, err := c.letters.DeadLetter(c.r.Context(), number)
	if err != nil {
		return err
	}
	was := newEditPage(letterPage{Number: number, Letter: &l})
	now := editPage{
		Number: number, IsTo: was.IsTo, IsHex: was.IsHex, FixedHeaders: was.FixedHeaders,
		Type: c.r.PostFormValue("type"), Address: c.r.PostFormValue("address"), ContentType: c.r.PostFormValue("content_type"),
		Schema: c.r.PostFormValue("schema"), Headers: c.r.PostFormValue("headers"), Payload: c.r.PostFormValue("payload"), Why: c.act().Why,
	}
	id := ""
	change, err := now.changes(was, &l.Message)
	if err == nil {
		id, err = c.letters.EditDeadLetter(c.r.Context(), number, change, c.act())
	}
	var refused *waybill.InvalidError
	if errors.As(err, &refused) {
		now.Wrong = refused.Field + " " + refused.Reason
		return c.show(http.StatusBadRequest, "edit", "Edit dead letter "+strconv.FormatInt(number, 10), now)
	}
	if err != nil {
		return err
	}
	return c.redirect("messages?" + url.Values{"id": {id}, "done": {"edited"}}.Encode())
}

// changes says in what the form differs from the message.
func (e editPage) changes(was editPage, m *waybill.Message) (change deadletter.Edit, err error) {
	change.Type = ifOther(e.Type, was.Type)
	change.ContentType = ifOther(e.ContentType, was.ContentType)
	change.DataSchema = ifOther(e.Schema, was.Schema)
	address := ifOther(e.Address, was.Address)
	change.Topic, change.To = address, nil
	if was.IsTo {
		change.Topic, change.To = nil, address
	}
	payload, err := edited(e.Payload, was.IsHex)
	if err != nil {
		return change, err
	}
	if string(payload) != string(m.Payload) {
		change.Payload = &payload
	}
	if was.FixedHeaders {
		return change, nil
	}
	headers, err := readHeaders(e.Headers)
	if err != nil {
		return change, err
	}
	change.Headers = &headers
	return change, nil
}

func ifOther(now, was string) *string {
	if now = strings.TrimSpace(now); now == was {
		return nil
	}
	return &now
}
