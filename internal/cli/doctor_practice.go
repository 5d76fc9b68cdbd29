package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/ops"
)

// The ranges of docs/good-practices.md.
const (
	leastPoll, mostPoll           = 5 * time.Second, 30 * time.Second
	leastBatch, mostBatch         = 100, 500
	leastRetries, mostRetries     = 1, 20
	leastGrowth                   = 4 // of the longest delay over the first
	leastRetention, mostRetention = 24 * time.Hour, 90 * 24 * time.Hour
)

const practicesPage = "docs/good-practices.md"

// checkPractices compares the options with the recommended ranges. There may be reasons
// for one outside.
func checkPractices(cfg *config.Config) finding {
	var outside []string
	found := func(key, value, good string) {
		outside = append(outside, fmt.Sprintf("%s is %s, good practice is %s", key, value, good))
	}
	if d := cfg.Duration("relay.poll_interval"); d < leastPoll || d > mostPoll {
		found("relay.poll_interval", d.String(), "5s to 30s")
	}
	if n := cfg.Int("relay.batch_size"); n < leastBatch || n > mostBatch {
		found("relay.batch_size", fmt.Sprint(n), "100 to 500")
	}
	if n := cfg.Int("relay.max_retries"); n < leastRetries || n > mostRetries {
		found("relay.max_retries", fmt.Sprint(n), "1 to 20")
	}
	if base, most := cfg.Duration("retry.base_delay"), cfg.Duration("retry.max_delay"); most < leastGrowth*base {
		found("retry.max_delay", most.String(), "4 times retry.base_delay at least, so that delays grow")
	}
	if !cfg.Bool("cleanup.enabled") {
		found("cleanup.enabled", "false", "true")
	}
	if !cfg.Bool("dead_letter.enabled") {
		found("dead_letter.enabled", "false", "true")
	}
	if d := cfg.Duration("outbox.retention"); d < leastRetention || d > mostRetention {
		found("outbox.retention", ops.Age(d), "1d to 90d")
	}
	if outside == nil {
		return passing("practices", "the options are within the ranges of "+practicesPage)
	}
	return warning("practices", strings.Join(outside, "; "), "see "+practicesPage)
}
