package relay

import (
	"errors"
	"fmt"
	"testing"

	"github.com/waybill-go/waybill"
)

func TestConfig_Order(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		field string
		cfg   Config
	}{
		{"Order", Config{Order: Skip + 1}},
		{"Order", Config{Order: -1}},
		{"TopicOrder", Config{TopicOrder: map[string]OrderPolicy{"t": Skip + 1}}},
		{"TopicOrder", Config{TopicOrder: map[string]OrderPolicy{"": Park}}},
		{"MaxParkedMessages", Config{MaxParkedMessages: -1}},
		{"MaxParkedKeys", Config{MaxParkedKeys: -1}},
	} {
		var invalid *waybill.InvalidError
		if _, err := tc.cfg.withDefaults(); !errors.As(err, &invalid) || invalid.Field != "relay.Config."+tc.field {
			t.Errorf("%+v: %v, want an InvalidError that names %s", tc.cfg, err, tc.field)
		}
	}
	cfg, err := Config{Order: Skip, TopicOrder: map[string]OrderPolicy{"t": Park}}.withDefaults()
	if err != nil || cfg.MaxParkedMessages != 100_000 || cfg.MaxParkedKeys != 10_000 {
		t.Errorf("config = %+v, %v, want the limits' defaults", cfg, err)
	}
}

func TestOrderPolicy_String(t *testing.T) {
	t.Parallel()
	if got, want := fmt.Sprint(Block, Park, Skip, OrderPolicy(7)), "block park skip OrderPolicy(7)"; got != want {
		t.Errorf("written as %q, want %q", got, want)
	}
}
