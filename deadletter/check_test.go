package deadletter

import (
	"errors"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// Texts that no store can hold are refused, each by its name, and not left to a store's error.
func TestFilter_Check_Texts(t *testing.T) {
	t.Parallel()
	for field, with := range map[string]func(text string) Filter{
		"consumer":    func(s string) Filter { return Filter{Consumer: s} },
		"topic":       func(s string) Filter { return Filter{Topic: s} },
		"type":        func(s string) Filter { return Filter{Type: s} },
		"tenant":      func(s string) Filter { return Filter{Tenant: s} },
		"fingerprint": func(s string) Filter { return Filter{Fingerprint: s} },
		"message_id":  func(s string) Filter { return Filter{MessageID: s} },
		"text":        func(s string) Filter { return Filter{Text: s, Since: time.Unix(1, 0)} },
	} {
		if err := with("äöü 100%_").Check(); err != nil {
			t.Errorf("%s: Check() = %v, want it answered", field, err)
		}
		for _, text := range []string{"a\x00b", "\xff", "cut \xc3"} {
			var invalid *waybill.InvalidError
			if err := with(text).Check(); !errors.As(err, &invalid) || invalid.Field != field {
				t.Errorf("%s %q: Check() = %v, want an InvalidError that names it", field, text, err)
			}
		}
	}
}
