package retention

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

const day = 24 * time.Hour

func TestSpan(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		policy waybill.RetryPolicy
		want   time.Duration
	}{
		{"the default: 1, 2, 4, 8 and 16 s, and a fifth", waybill.RetryPolicy{}, 37200 * time.Millisecond},
		{"without jitter", waybill.RetryPolicy{DisableJitter: true}, 31 * time.Second},
		{"no retries", waybill.RetryPolicy{MaxRetries: waybill.NoRetries}, 0},
		{"capped", waybill.RetryPolicy{MaxRetries: 4, BaseDelay: time.Second, MaxDelay: 3 * time.Second, DisableJitter: true}, 9 * time.Second},
		{"without end", waybill.RetryPolicy{MaxRetries: math.MaxInt, MaxDelay: time.Hour}, math.MaxInt64},
		{"invalid", waybill.RetryPolicy{BaseDelay: -1}, 0},
	} {
		if got := span(tt.policy); got != tt.want {
			t.Errorf("%s: span = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPlan_Horizon(t *testing.T) {
	t.Parallel()
	retries := func(n int) waybill.RetryPolicy {
		return waybill.RetryPolicy{MaxRetries: n, BaseDelay: time.Hour, MaxDelay: time.Hour, DisableJitter: true}
	}
	none := waybill.RetryPolicy{MaxRetries: waybill.NoRetries}
	for _, tt := range []struct {
		name string
		r    Plan
		want time.Duration
	}{
		{"nothing comes again", Plan{Relay: none, Consumer: none}, 0},
		{"the broker's bound", Plan{Relay: none, Consumer: none, Redelivery: contract.Redelivery{Bound: day}}, day},
		{"the relay publishes again", Plan{Relay: retries(5), Consumer: none, Redelivery: contract.Redelivery{Bound: day}}, day + 5*time.Hour},
		{"the broker drops that", Plan{Relay: retries(5), Consumer: none, Redelivery: contract.Redelivery{Bound: day, DuplicateWindow: 5 * time.Hour}}, day},
		{"the broker forgets before the relay", Plan{Relay: retries(6), Consumer: none, Redelivery: contract.Redelivery{Bound: day, DuplicateWindow: 5 * time.Hour}}, day + 6*time.Hour},
		{"the consumer retries", Plan{Relay: retries(1), Consumer: retries(30), Redelivery: contract.Redelivery{Bound: day}}, 31 * time.Hour},
		{"without end", Plan{Relay: retries(math.MaxInt), Consumer: retries(math.MaxInt)}, math.MaxInt64},
	} {
		if got := tt.r.Horizon(); got != tt.want {
			t.Errorf("%s: Horizon() = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPlan_Check(t *testing.T) {
	t.Parallel()
	r := Plan{Inbox: 7 * day, Redelivery: contract.Redelivery{Bound: 7 * day, DuplicateWindow: 2 * time.Minute}}
	if err := r.Check(); err != nil {
		t.Errorf("Check() = %v for a retention that is just long enough", err)
	}
	const holds = "inbox retention is 7d; a message may be delivered again up to 7d after it was handled " +
		"(the relay retries for 37.2s, the consumer for 37.2s, the broker keeps it for 7d and drops repetitions for 2m0s)"
	if got := r.String(); got != holds {
		t.Errorf("String() = %q, want %q", got, holds)
	}
	r.Inbox--
	if err := r.Check(); err == nil {
		t.Error("Check() = nil for one that is a moment too short")
	}
	r.Inbox = 6*day + 12*time.Hour
	if got := r.String(); !strings.Contains(got, "is 6d12h0m0s, but a message may be delivered again 7d after") {
		t.Errorf("String() = %q, want both numbers", got)
	}
	unbounded := Plan{Redelivery: contract.Redelivery{Unbounded: true}}
	if err := unbounded.Check(); err != nil || !strings.Contains(unbounded.String(), "for as long as that takes") {
		t.Errorf("Check() = %v for a broker without a bound, want a warning only: %s", err, unbounded)
	}
}
