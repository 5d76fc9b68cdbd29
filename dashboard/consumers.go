package dashboard

import (
	"net/http"

	"github.com/waybill-go/waybill/internal/ops"
)

// consumerList is what the page of consumers shows.
type consumerList struct {
	Busy        []ops.NamedTraffic // in the last hour
	Consumers   []ops.Consumer
	Full        bool // there may be more groups, and so more consumers
	CanAskInbox bool
}

// consumers shows what traffic and dead letters reveal about consumers: the groups are stored aggregated,
// so that the cost does not depend on the number of dead letters and inbox records.
func (d *Dashboard) consumers(c *call) error {
	groups, err := c.letters.DeadLetterGroups(c.r.Context(), groupsShown)
	if err != nil {
		return err
	}
	return c.show(http.StatusOK, "consumers", "Consumers", consumerList{
		Busy: d.busyConsumers(c), Consumers: ops.Consumers(groups), Full: len(groups) == groupsShown, CanAskInbox: c.inbox != nil,
	})
}
