package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
)

// selectable are the verbs for all dead letters that are selected in the list.
var selectable = []ops.Verb{ops.Find(ops.Letter, "requeue"), ops.Find(ops.Letter, "resolve")}

// changeSelected applies a verb to each dead letter that is selected in the list. A failure
// of one does not affect the others.
func (d *Dashboard) changeSelected(c *call) error {
	do, err := selectedChange(c)
	if err != nil {
		return err
	}
	numbers := c.r.PostForm["number"]
	if len(numbers) == 0 || len(numbers) > lettersOnPage {
		return invalidField("number", "is missing: tick the letters that are meant")
	}
	changed := 0
	for _, text := range numbers {
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return invalidField("number", "is not a number")
		}
		out, err := do.Try(c.r.Context(), c.ops(), number, c.act())
		if err != nil {
			return err
		}
		if out.Done {
			changed++
		}
	}
	left := len(numbers) - changed
	back, err := url.ParseQuery(c.r.PostFormValue("filter"))
	if err != nil {
		back = make(url.Values)
	}
	back.Set("done", "selected")
	back.Set("changed", strconv.Itoa(changed))
	back.Set("left", strconv.Itoa(left))
	return c.redirect("dead/list?" + back.Encode())
}

func selectedChange(c *call) (ops.Verb, error) {
	if err := c.act().Check(); err != nil {
		return ops.Verb{}, err
	}
	for _, v := range selectable {
		switch {
		case v.Name != c.r.PostFormValue("do"):
		case v.MustSay != "" && c.act().Why == "":
			return v, invalidField("why", "is required: say how they were dealt with")
		default:
			return v, nil
		}
	}
	return ops.Verb{}, invalidField("do", "is not requeue or resolve")
}

// editPage is the form in which a dead letter's message is corrected.
type editPage struct {
	Number                             int64
	Type, Address, ContentType, Schema string
	Headers, Payload                   string
	IsTo, IsHex, FixedHeaders          bool
	Why, Wrong                         string
}

// editForm shows the message in a form, which reveals its payload.
func (d *Dashboard) editForm(c *call) error {
	number, err := c.number()
	if err != nil {
		return err
	}
	l, err := c.letters.DeadLetter(c.r.Context(), number)
	switch {
	case err != nil:
		return err
	case l.State != deadletter.Open:
		return deadletter.ErrResolved
	}
	e := deadletter.Entry{Letter: number, MessageID: l.Message.ID, Detail: "to edit it"}
	if err := c.ops().Reveal(c.r.Context(), c.act(), "payload", e); err != nil {
		return err
	}
	return c.show(http.StatusOK, "edit", "Edit dead letter "+strconv.FormatInt(number, 10), newEditPage(number, &l.Message))
}

func newEditPage(number int64, m *waybill.Message) editPage {
	e := editPage{
		Number: number, Type: m.Type, Address: m.Address(), ContentType: m.ContentType, Schema: m.DataSchema,
		IsTo: m.To != "", Headers: writeHeaders(ops.HeaderNames(m), m.Headers),
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
	was := newEditPage(number, &l.Message)
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

// changes returns how the form differs from the message.
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
