package browser

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/traffic"
)

// fillTraffic records the last hour of a shop: a wave of orders, half an hour ago an outage of the supplier that made a
// consumer retry, and a backlog that went away.
func (s *Stage) fillTraffic(ctx context.Context) error {
	now := time.Now().UTC().Truncate(traffic.Minute)
	for ago := 1; ago < 60; ago++ {
		wave := int64(1_800 + 30*min(ago, 60-ago))
		orders := traffic.Counts{Enqueued: wave, Published: wave, PublishLag: traffic.Histogram{wave / 2, wave / 4, wave / 4}, Backlog: 12, Oldest: time.Second}
		reorder := traffic.Counts{Handled: wave, HandleLag: traffic.Histogram{0, 0, wave / 2, wave / 3, wave / 6}}
		if ago > 25 && ago < 32 {
			reorder = traffic.Counts{Handled: wave / 3, Failed: wave / 2, Retried: wave / 2, HandleLag: traffic.Histogram{0, 0, 0, 0, 0, 0, 0, 0, wave / 3}}
			orders.Backlog, orders.Oldest = 600*int64(32-ago), 40*time.Second
		}
		both := orders
		both.Merge(reorder)
		interval := traffic.Interval{
			Topics:    map[string]traffic.Counts{"stock.changed": both},
			Consumers: map[string]traffic.Counts{"reorder": reorder},
			Relays:    map[string]traffic.Counts{"relay-1": {Published: orders.Published, PublishLag: orders.PublishLag}},
		}
		data, err := interval.Encode()
		if err != nil {
			return err
		}
		row := traffic.Row{Step: traffic.Minute, At: now.Add(-time.Duration(ago) * traffic.Minute), Writer: "stage", Data: data}
		if err := s.Store.AddTraffic(ctx, row); err != nil {
			return err
		}
	}
	return nil
}
