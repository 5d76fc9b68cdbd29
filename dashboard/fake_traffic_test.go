package dashboard

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/traffic"
)

// AddTraffic and ReplaceTraffic are not called.
func (f *fake) AddTraffic(context.Context, traffic.Row) error { panic("called") }

func (f *fake) ReplaceTraffic(context.Context, []traffic.Row, *traffic.Row) error { panic("called") }

// Traffic returns 600 messages that were published in a minute a while ago, and 120 that were handled.
func (f *fake) Traffic(_ context.Context, step time.Duration, from, to time.Time) ([]traffic.Row, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if step != traffic.Minute || f.quiet || f.fail != nil {
		return []traffic.Row{}, f.fail
	}
	return []traffic.Row{{Step: step, At: to.Add(-10 * time.Minute).Truncate(step), Writer: "a", Data: []byte(`{
		"topics": {"<b>orders": {"published": 600, "handled": 120, "failed": 3, "publish_lag": [0, 600], "handle_lag": [0, 0, 120], "backlog": 17, "oldest_ns": 60000000000}},
		"consumers": {"mailer": {"handled": 120, "failed": 3, "handle_lag": [0, 0, 120]}},
		"relays": {"relay-a": {"published": 600, "publish_lag": [0, 600]}}}`)}}, nil
}
