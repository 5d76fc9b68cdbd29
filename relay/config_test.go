package relay

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// TestConfig_LongLease: the durations around a lease are refused where their sum would be none.
func TestConfig_LongLease(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"lease":   {LeaseTTL: math.MaxInt64},
		"renewal": {LeaseTTL: maxLeaseTTL, RenewInterval: math.MaxInt64},
		"publish": {LeaseTTL: maxLeaseTTL, PublishTimeout: math.MaxInt64},
		"both":    {LeaseTTL: time.Hour, RenewInterval: math.MaxInt64, PublishTimeout: math.MaxInt64},
	} {
		var invalid *waybill.InvalidError
		if _, err := New(newFakeSource(), &fakeBroker{}, cfg); !errors.As(err, &invalid) || invalid.Field != "relay.Config.LeaseTTL" {
			t.Errorf("%s: New() = %v, want an error that names LeaseTTL", name, err)
		}
	}
	if _, err := New(newFakeSource(), &fakeBroker{}, Config{LeaseTTL: maxLeaseTTL}); err != nil {
		t.Errorf("New() with the longest lease = %v, want nil", err)
	}
}
