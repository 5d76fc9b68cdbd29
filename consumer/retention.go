package consumer

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
)

// Redelivery says for how long a broker may redeliver a message that was handled before.
type Redelivery struct {
	// Bound is how long after a message was published the broker keeps it at most. 0 stands
	// for one that forgets it when the program ends.
	Bound time.Duration

	// Unbounded says that the broker keeps a message until it is acknowledged, however long
	// that takes. Bound is 0 then.
	Unbounded bool

	// DuplicateWindow is how long the broker drops what a relay publishes a second time; 0 if it does
	// not.
	DuplicateWindow time.Duration
}

// Redeliverer is a [contract.Subscriber], or a broker, that knows for how long it may redeliver a
// message.
type Redeliverer interface {
	// Redelivery returns the current limits. It asks no server and is safe for concurrent use.
	Redelivery() Redelivery
}

// RedeliveryOf returns the limits of a [contract.Subscriber] or a broker. One that is no
// [Redeliverer] is taken to be unbounded.
func RedeliveryOf(from any) Redelivery {
	if r, ok := from.(Redeliverer); ok {
		return r.Redelivery()
	}
	return Redelivery{Unbounded: true}
}

// Retention relates how long the inbox remembers a message to how long it may be redelivered. What
// is redelivered later is handled a second time.
type Retention struct {
	Inbox           time.Duration // 0 stands for inbox.DefaultRetention
	Relay, Consumer waybill.RetryPolicy
	Redelivery      Redelivery
}

// Horizon returns how long after a message was handled it may be delivered again, as far as
// that has a bound: for as long as the broker keeps it, or the consumer retries it if that is
// longer; and because a relay that was not confirmed in time publishes it again, for the time
// that the relay's retries take, unless the broker drops such repetitions for longer. Outages
// are not in it, because they count no attempts.
func (r Retention) Horizon() time.Duration {
	horizon := max(r.Redelivery.Bound, span(r.Consumer))
	if again := span(r.Relay); again > r.Redelivery.DuplicateWindow {
		horizon = sum(horizon, again)
	}
	return horizon
}

// Check returns an error with both numbers if the inbox forgets sooner than the horizon.
func (r Retention) Check() error {
	if r.inbox() < r.Horizon() {
		return fmt.Errorf("is %s, but a message may be delivered again %s after it was handled (the relay retries for %s, the consumer for %s, %s), and would be handled again",
			words(r.inbox()), words(r.Horizon()), words(span(r.Relay)), words(span(r.Consumer)), r.keeps())
	}
	return nil
}

// String says with both numbers whether the retention holds.
func (r Retention) String() string {
	if err := r.Check(); err != nil {
		return "inbox retention " + err.Error()
	}
	return fmt.Sprintf("inbox retention is %s; a message may be delivered again up to %s after it was handled (the relay retries for %s, the consumer for %s, %s)",
		words(r.inbox()), words(r.Horizon()), words(span(r.Relay)), words(span(r.Consumer)), r.keeps())
}

func (r Retention) keeps() string {
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

func (r Retention) inbox() time.Duration {
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
	p, err := p.WithDefaults()
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
		delay := p.Delay(n)
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
