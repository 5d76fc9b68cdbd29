package mysqlstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
)

func TestNewNames(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"":                      "`waybill_outbox`",
		"w_":                    "`w_outbox`",
		"a\"b`$1":               "`a\"b``$1outbox`",
		strings.Repeat("x", 40): "`" + strings.Repeat("x", 40) + "outbox`",
	} {
		n, err := newNames(prefix)
		if err != nil || n.render("{outbox}") != want {
			t.Errorf("prefix %q: %s, %v, want %s", prefix, n.render("{outbox}"), err, want)
		}
	}
	for _, prefix := range []string{" ", strings.Repeat("x", 41), "a{", "a}", "a\x00", "\xff", "a🚚"} {
		var invalid *waybill.InvalidError
		if _, err := newNames(prefix); !errors.As(err, &invalid) || invalid.Field != "TablePrefix" {
			t.Errorf("prefix %q: error %v, want one that names TablePrefix", prefix, err)
		}
	}
}
