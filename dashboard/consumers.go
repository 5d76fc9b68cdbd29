package dashboard

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/waybill-go/waybill/deadletter"
)

// consumerRow is a consumer with open dead letters.
type consumerRow struct {
	Name       string
	Open       int
	Groups     int
	Trend      [24]int
	LastFailed time.Time
	Worst      deadletter.Group // its largest
}

// consumerList is what the page of consumers shows.
type consumerList struct {
	Consumers   []consumerRow
	Full        bool // there may be more groups, and so more consumers
	CanAskInbox bool
}

// consumers shows what dead letters tell of consumers: the groups are kept rolled up, so that
// it costs the same however many letters and inbox records there are.
func (d *Dashboard) consumers(c *call) error {
	groups, err := c.letters.DeadLetterGroups(c.r.Context(), groupsShown)
	if err != nil {
		return err
	}
	return c.show(http.StatusOK, "consumers", "Consumers", consumerList{
		Consumers: consumersOf(groups), Full: len(groups) == groupsShown, CanAskInbox: c.inbox != nil,
	})
}

// consumersOf sums groups up by consumer, the one with the most open letters first.
func consumersOf(groups []deadletter.Group) []consumerRow {
	var rows []consumerRow
	at := make(map[string]int)
	for _, g := range groups {
		if g.Origin != deadletter.FromConsumer {
			continue
		}
		i, known := at[g.Consumer]
		if !known {
			i = len(rows)
			at[g.Consumer] = i
			rows = append(rows, consumerRow{Name: g.Consumer})
		}
		rows[i].add(g)
	}
	slices.SortFunc(rows, func(a, b consumerRow) int { return cmp.Or(cmp.Compare(b.Open, a.Open), cmp.Compare(a.Name, b.Name)) })
	return rows
}

func (r *consumerRow) add(g deadletter.Group) {
	r.Open += g.Open
	r.Groups++
	if g.Open > r.Worst.Open {
		r.Worst = g
	}
	if g.LastFailed.After(r.LastFailed) {
		r.LastFailed = g.LastFailed
	}
	for hour, n := range g.Trend {
		r.Trend[hour] += n
	}
}
