package pgadmin

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/internal/span"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// Condition is the state of the tables that relays work on.
type Condition struct {
	Relays    int // alive
	Lanes     int // the total
	FreeLanes int // of no live relay
	OldRelays int // alive, and started before the newest migration was applied
	Misplaced int // of a thousand messages of the outbox, those in another lane than their key's

	DaysAhead int // for which the archive should have a partition, today among them
	DaysReady int // how many of those have one

	DeadRows   int64         // of the outbox, not yet vacuumed; the server's estimate
	LastVacuum time.Duration // ago, of the outbox; negative if there was none
}

// Condition returns the state of the tables. It needs the rights of a relay.
func (a *Admin) Condition(ctx context.Context) (Condition, error) {
	rows, err := a.db.DB.Query(ctx, a.sql.Condition, a.db.Render("{outbox}"))
	c, _, err := sqldb.One(rows, err, scanCondition)
	if err != nil {
		return c, a.db.Kind(err)
	}
	c.DaysAhead, c.DaysReady, err = a.db.Days(ctx)
	return c, a.db.Kind(err)
}

func scanCondition(r sqldb.Rows) (c Condition, err error) {
	var seconds float64
	err = r.Scan(&c.Relays, &c.OldRelays, &c.Lanes, &c.FreeLanes, &c.DeadRows, &seconds, &c.Misplaced)
	c.LastVacuum = span.Of(seconds, time.Second)
	return c, err
}
