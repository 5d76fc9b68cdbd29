package sqlstore

import (
	"context"
	"database/sql"

	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// RelayStates implements [inspect.Relays]. The statement returns the node, when it joined,
// when its lease expires, whether it is alive, and one of its lanes and since when, or NULL
// for a node without any; a free lane has the node "". All in the order of node and lane.
func (c *Core[Tx]) RelayStates(ctx context.Context) ([]inspect.RelayState, error) {
	states := []inspect.RelayState{}
	rows, err := c.DB.Query(ctx, c.SQL.RelayStates)
	_, err = sqldb.Collect(rows, err, func(r sqldb.Rows) (struct{}, error) {
		var n inspect.RelayState
		var started, expires, since sqldb.Time
		var lane sql.NullInt64
		if err := r.Scan(&n.Node, &started, &expires, &n.Alive, &lane, &since); err != nil {
			return struct{}{}, err
		}
		if last := len(states) - 1; last < 0 || states[last].Node != n.Node {
			n.StartedAt, n.ExpiresAt, n.Lanes = started.UTC(), expires.UTC(), []int{}
			states = append(states, n)
		}
		if lane.Valid {
			addLane(&states[len(states)-1], int(lane.Int64), since)
		}
		return struct{}{}, nil
	})
	if err != nil {
		return nil, c.Kind(err)
	}
	return states, nil
}

func addLane(n *inspect.RelayState, lane int, since sqldb.Time) {
	n.Lanes = append(n.Lanes, lane)
	if since.After(n.Since) {
		n.Since = since.UTC()
	}
}
