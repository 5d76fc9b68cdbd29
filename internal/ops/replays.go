package ops

import (
	"fmt"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/span"
)

// Progress describes the progress of a replay.
func Progress(r *deadletter.Replay) string {
	return fmt.Sprintf("requeued %s of %s, passed over %s, dead again %s", Count(r.Requeued), Count(r.Letters), Count(r.Skipped), Count(r.Failed))
}

// PreviewText describes what a replay would do.
func PreviewText(p *deadletter.Preview, rate float64) string {
	keys := "without a key"
	if p.Keys > 0 {
		keys = "of " + Plural(p.Keys, "key")
	}
	return fmt.Sprintf("%s %s, the first failed %s; at %v per second that takes %s or more.",
		Plural(p.Letters, "dead letter"), keys, Moment(&p.Oldest), rate, Age(leastTime(p.Letters, rate)))
}

// PreviewRisk says how many dead letters are older than what inboxes remember, "" if none.
func PreviewRisk(p *deadletter.Preview, retention time.Duration) string {
	if p.Unprotected == 0 {
		return ""
	}
	return fmt.Sprintf("%s failed longer ago than inboxes remember (inbox.retention, %v): a consumer that did process one\nof them would process it again.",
		Plural(p.Unprotected, "letter"), Age(retention))
}

// leastTime is how long a replay takes at its full rate, in whole seconds.
func leastTime(letters int, rate float64) time.Duration {
	return max(time.Second, span.Of(float64(letters)/rate, time.Second).Round(time.Second))
}

// IdleAfter is how long a running replay may requeue nothing before it is reported as idle. A slow one may take longer
// for each dead letter.
const IdleAfter = 15 * time.Second

// Idle says why a running replay, which has requeued nothing for the duration still, does not advance, "" if it does.
// Relays drive replays; so do consumers, of which the store keeps no list.
func Idle(r *deadletter.Replay, still time.Duration, noRelay bool) string {
	patience := max(IdleAfter, time.Duration(3/r.Plan.Complete().Rate*float64(time.Second)))
	switch {
	case r.State != deadletter.Running || still < patience:
		return ""
	case noRelay:
		return fmt.Sprintf("Nothing was requeued for %s: no relay is alive, and nothing else drives it. It goes on by itself when a relay starts.", Age(still))
	}
	return fmt.Sprintf("Nothing was requeued for %s. Relays drive replays unless dead_letter.replays is false; their logs say what keeps them.", Age(still))
}
