package dashboard

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
)

func invalidField(field, reason string) error {
	return &waybill.InvalidError{Field: field, Reason: reason}
}

// isStorable reports whether text can be in a row of any store.
func isStorable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// minuteForm is what a browser sends for a date and time, here always in UTC.
const minuteForm = "2006-01-02T15:04"

// readFilter reads a filter from a URL, as writeFilter has written it.
func readFilter(q url.Values) (deadletter.Filter, error) {
	f := deadletter.Filter{
		Origin: deadletter.Origin(q.Get("origin")), Consumer: q.Get("consumer"), Topic: q.Get("topic"), Type: q.Get("type"),
		Tenant: q.Get("tenant"), Fingerprint: q.Get("fingerprint"), MessageID: q.Get("message"),
		Key: q.Get("key"), CorrelationID: q.Get("correlation"),
		State: deadletter.State(q.Get("state")), Text: q.Get("text"), Newest: q.Get("order") != "oldest",
	}
	var err error
	if f.Since, err = readTime("since", q.Get("since")); err != nil {
		return f, err
	}
	if f.Until, err = readTime("until", q.Get("until")); err != nil {
		return f, err
	}
	if f.After, err = numberOf(q, "after"); err != nil {
		return f, err
	}
	return f, f.Check()
}

func readTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{minuteForm, "2006-01-02T15:04:05", time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, invalidField(field, "is not a time such as 2026-01-31T23:59")
}

// writeFilter writes a filter as a query, without empty fields and without the position in
// the list.
func writeFilter(f deadletter.Filter) url.Values {
	q := make(url.Values)
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	set("origin", string(f.Origin))
	set("consumer", f.Consumer)
	set("topic", f.Topic)
	set("type", f.Type)
	set("tenant", f.Tenant)
	set("fingerprint", f.Fingerprint)
	set("message", f.MessageID)
	set("key", f.Key)
	set("correlation", f.CorrelationID)
	set("state", string(f.State))
	set("since", writeTime(f.Since))
	set("until", writeTime(f.Until))
	set("text", f.Text)
	if !f.Newest {
		q.Set("order", "oldest")
	}
	return q
}

// queryOf is a filter as a query that a template does not escape again: Encode has escaped
// it.
func queryOf(f deadletter.Filter) template.URL { return template.URL(writeFilter(f).Encode()) }

func writeTime(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.Second() == 0 && t.Nanosecond() == 0:
		return t.UTC().Format(minuteForm)
	}
	return t.UTC().Format(time.RFC3339)
}

// condition is a part of a filter in words.
type condition struct{ Name, Value string }

// conditions returns what a filter asks for.
func conditions(f deadletter.Filter) []condition {
	var list []condition
	for name, values := range writeFilter(f) {
		if name != "order" {
			list = append(list, condition{name, values[0]})
		}
	}
	slices.SortFunc(list, func(a, b condition) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
