package backoff

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

func TestDelays(t *testing.T) {
	t.Parallel()
	p, err := WithDefaults(waybill.RetryPolicy{DisableJitter: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if got := Delay(p, i+1); got != want*time.Second {
			t.Errorf("Delay(%d) = %v, want %v", i+1, got, want*time.Second)
		}
	}
	for attempts, want := range map[int]bool{1: false, 5: false, 6: true, 100: true} {
		if got := Exhausted(p, attempts); got != want {
			t.Errorf("Exhausted(%d) = %v, want %v: one try and five retries", attempts, got, want)
		}
	}
}

func TestJitter(t *testing.T) {
	t.Parallel()
	p, err := WithDefaults(waybill.RetryPolicy{})
	if err != nil {
		t.Fatal(err)
	}
	low, high := time.Hour, time.Duration(0)
	for range 10_000 {
		d := Delay(p, 1)
		low, high = min(low, d), max(high, d)
	}
	if low < 800*time.Millisecond || high > 1200*time.Millisecond {
		t.Errorf("delays between %v and %v, want within 20 %% of 1 s", low, high)
	}
	if low > 850*time.Millisecond || high < 1150*time.Millisecond {
		t.Errorf("delays between %v and %v, want them spread", low, high)
	}
}

// TestLongest: a delay is a Duration whatever its spread, and one that would not be is refused by the name of
// its field.
func TestLongest(t *testing.T) {
	t.Parallel()
	p, err := WithDefaults(waybill.RetryPolicy{BaseDelay: maxMaxDelay, MaxDelay: maxMaxDelay})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if d := Delay(p, 1); d < maxMaxDelay/2 || time.Now().Add(d).Before(time.Now()) {
			t.Fatalf("Delay() = %v, want about %v", d, maxMaxDelay)
		}
	}
	var invalid *waybill.InvalidError
	for _, p := range []waybill.RetryPolicy{{MaxDelay: math.MaxInt64}, {BaseDelay: math.MaxInt64}} {
		if _, err := WithDefaults(p); !errors.As(err, &invalid) || invalid.Field != "Retry.MaxDelay" {
			t.Errorf("WithDefaults() of %+v = %v, want an error that names Retry.MaxDelay", p, err)
		}
	}
}

// FuzzDelay: delays never shrink, never pass the cap and never overflow.
func FuzzDelay(f *testing.F) {
	f.Add(int64(time.Second), int64(time.Minute), 60)
	f.Add(int64(1), int64(1<<62), 1000)
	f.Fuzz(func(t *testing.T, base, limit int64, attempts int) {
		p, err := WithDefaults(waybill.RetryPolicy{BaseDelay: time.Duration(base), MaxDelay: time.Duration(limit), DisableJitter: true})
		if err != nil || attempts < 1 {
			return
		}
		d := Delay(p, attempts)
		if d < p.BaseDelay || d > p.MaxDelay || Delay(p, attempts+1) < d {
			t.Fatalf("Delay(%d) = %v with base %v and cap %v", attempts, d, p.BaseDelay, p.MaxDelay)
		}
	})
}
