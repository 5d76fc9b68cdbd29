// Package retention says how long an inbox must remember what was handled. Consumers and services check that by
// themselves; programs that process messages with package inbox, or run a janitor alone, can do so here.
package retention

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/backoff"
)

// Plan relates how long the inbox remembers a message to how long it may be redelivered. What
// is redelivered later is handled a second time.
type Plan struct {
	Inbox           time.Duration // 0 stands for inbox.DefaultRetention
	Relay, Consumer waybill.RetryPolicy
	Redelivery      contract.Redelivery
}

// Horizon returns how long after a message was handled it may be delivered again, as far as
// that has a bound: for as long as the broker keeps it, or the consumer retries it if that is
// longer; and because a relay that was not confirmed in time publishes it again, for the time
// that the relay's retries take, unless the broker drops such repetitions for longer. Outages
// are not in it, because they count no attempts.
func (r Plan) Horizon() time.Duration {
	horizon := max(r.Redelivery.Bound, span(r.Consumer))
	if again := span(r.Relay); again > r.Redelivery.DuplicateWindow {
		horizon = sum(horizon, again)
	}
	return horizon
}

// Check returns an error with both numbers if the inbox forgets sooner than the horizon.
func (r Plan) Check() error {
	if r.inbox() < r.Horizon() {
		return fmt.Errorf("is %s, but a message may be delivered again %s after it was handled (the relay retries for %s, the consumer for %s, %s), and would be handled again",
			words(r.inbox()), words(r.Horizon()), words(span(r.Relay)), words(span(r.Consumer)), r.keeps())
	}
	return nil
}

// String says with both numbers whether the retention holds.
func (r Plan) String() string {
	if err := r.Check(); err != nil {
		return "inbox retention " + err.Error()
	}
	return fmt.Sprintf("inbox retention is %s; a message may be delivered again up to %s after it was handled (the relay retries for %s, the consumer for %s, %s)",
		words(r.inbox()), words(r.Horizon()), words(span(r.Relay)), words(span(r.Consumer)), r.keeps())
}

func (r Plan) keeps() string {
	switch b := r.Redelivery; {
	case b.Unbounded:
		return "the broker keeps what is not acknowledged for as long as that takes"
	case b.Bound == 0:
		return "the broker keeps nothing when the program ends"
	case b.DuplicateWindow > 0:
		return fmt.Sprintf("the broker keeps it for %s and drops repetitions for %s", words(b.Bound), words(b.DuplicateWindow))
	default:
		return fmt.Sprintf("the broker keeps it for %s", words(b.Bound))
	}
}

func (r Plan) inbox() time.Duration {
	return cmp.Or(r.Inbox, inbox.DefaultRetention)
}

// words renders a duration, whole days as such.
func words(d time.Duration) string {
	const day = 24 * time.Hour
	if days := d.Truncate(day); days > 0 {
		rest := strings.TrimPrefix((d - days).Round(time.Second).String(), "0s")
		return fmt.Sprintf("%dd%s", days/day, rest)
	}
	return d.Round(time.Millisecond).String()
}

// spread is the factor by which jitter may lengthen a delay.
const spread = 1.2

// span returns the longest time from the first attempt to the last. A policy that is not
// valid has none: it is refused elsewhere.
func span(p waybill.RetryPolicy) time.Duration {
	p, err := backoff.WithDefaults(p)
	if err != nil {
		return 0
	}
	jitter := spread
	if p.DisableJitter {
		jitter = 1
	}
	p.DisableJitter = true
	var total float64
	for n := 1; n <= p.MaxRetries; n++ {
		delay := backoff.Delay(p, n)
		if delay == p.MaxDelay { // and so are all that follow
			total += float64(p.MaxRetries-n+1) * float64(delay)
			break
		}
		total += float64(delay)
	}
	if total *= jitter; total >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(total)
}

func sum(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
