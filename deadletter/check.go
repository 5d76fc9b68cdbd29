package deadletter

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

// Check returns an error that names the field if f can't be answered.
func (f Filter) Check() error {
	switch {
	case f.State != "" && f.State != Open && f.State != Resolved && f.State != Discarded:
		return invalid("state", fmt.Sprintf("is %q; it is %s, %s or %s", f.State, Open, Resolved, Discarded))
	case f.Origin != "" && f.Origin != FromRelay && f.Origin != FromConsumer:
		return invalid("origin", fmt.Sprintf("is %q; it is %s or %s", f.Origin, FromRelay, FromConsumer))
	case !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until):
		return invalid("until", "is not later than since")
	case f.Limit < 0:
		return invalid("limit", "is negative")
	}
	return f.checkTexts()
}

// checkTexts refuses texts that no store can compare with.
func (f Filter) checkTexts() error {
	for _, field := range []struct{ name, value string }{
		{"consumer", f.Consumer}, {"topic", f.Topic}, {"type", f.Type}, {"tenant", f.Tenant},
		{"fingerprint", f.Fingerprint}, {"message_id", f.MessageID}, {"key", f.Key}, {"correlation_id", f.CorrelationID}, {"text", f.Text},
	} {
		if !storable(field.value) {
			return invalid(field.name, "is not UTF-8 text, or holds a NUL")
		}
	}
	return nil
}

// Check returns an error that names the field if the act can't be stored.
func (a Act) Check() error {
	switch {
	case strings.TrimSpace(a.By) == "":
		return invalid("by", "is blank")
	case len(a.By) > waybill.MaxIDLen:
		return invalid("by", fmt.Sprintf("has %d bytes, the limit is %d", len(a.By), waybill.MaxIDLen))
	case len(a.Why) > observe.MaxErrorLen:
		return invalid("why", fmt.Sprintf("has %d bytes, the limit is %d", len(a.Why), observe.MaxErrorLen))
	case !storable(a.By):
		return invalid("by", "is not UTF-8 text, or holds a NUL")
	case !storable(a.Why):
		return invalid("why", "is not UTF-8 text, or holds a NUL")
	}
	return nil
}

func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func invalid(field, reason string) error { return &waybill.InvalidError{Field: field, Reason: reason} }
