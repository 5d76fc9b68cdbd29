package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// DeadLetterGroups implements [deadletter.Store]. ListGroups takes the limit. FoldDue returns
// whether the number of unfolded changes makes reading slow, or dead letters are in no group.
func (c *Core[Tx]) DeadLetterGroups(ctx context.Context, limit int) ([]deadletter.Group, error) {
	rows, err := c.DB.Query(ctx, c.SQL.FoldDue)
	due, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
	if err == nil && due {
		err = c.FoldDeadLetters(ctx)
	}
	if err != nil {
		return nil, c.Kind(err)
	}
	rows, err = c.DB.Query(ctx, c.SQL.ListGroups, limit)
	groups, err := sqldb.Collect(rows, err, scanGroup)
	return groups, c.Kind(err)
}

// scanGroup reads a group; its trend is a JSON array.
func scanGroup(r sqldb.Rows) (g deadletter.Group, err error) {
	var last sqldb.Time
	var trend []byte
	err = r.Scan(&g.Fingerprint, &g.Origin, &g.Consumer, &g.Topic, &g.Type, &g.Reason, &g.Error, &g.Newest, &last, &g.Open, &trend)
	if err != nil {
		return g, err
	}
	g.LastFailed = last.UTC()
	if err := json.Unmarshal(trend, &g.Trend); err != nil {
		return g, fmt.Errorf("trend of a group: %w", err)
	}
	return g, nil
}

// FoldDeadLetters adds the latest changes to the sums of the groups, so that reading groups
// stays fast, and assigns dead letters that an older release has written to the group that they
// belong to. It should be called every few seconds, by any number of processes: only one does the
// work at once. Counts are right without it.
func (c *Core[Tx]) FoldDeadLetters(ctx context.Context) error {
	return c.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		rows, err := conn.Query(ctx, c.SQL.TryFold)
		mine, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
		if err == nil && mine {
			err = c.fold(ctx, conn)
		}
		if err != nil {
			return fmt.Errorf("fold dead letters: %w", err)
		}
		return nil
	})
}

func (c *Core[Tx]) fold(ctx context.Context, conn sqldb.Conn) error {
	if err := c.NameLetters(ctx, conn); err != nil {
		return err
	}
	for _, stmt := range [...]string{c.SQL.Fold, c.SQL.PruneSums} {
		if stmt == "" {
			continue
		}
		if _, err := conn.Exec(ctx, stmt); err != nil {
			return err
		}
	}
	return nil
}

// NameLetters sets the fingerprint of dead letters without one, as an older release writes them:
// those that Nameless returns, a batch. SetFingerprints takes numbers and fingerprints.
func (c *Core[Tx]) NameLetters(ctx context.Context, conn sqldb.Conn) error {
	var numbers []int64
	rows, err := conn.Query(ctx, c.SQL.Nameless)
	prints, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (string, error) {
		var number int64
		var origin deadletter.Origin
		var name, messageType, errText string
		err := r.Scan(&number, &origin, &name, &messageType, &errText)
		numbers = append(numbers, number)
		return deadletter.Fingerprint(origin, name, messageType, errText), err
	})
	if err != nil || len(prints) == 0 {
		return err
	}
	_, err = conn.Exec(ctx, c.SQL.SetFingerprints, numbers, prints)
	return err
}
