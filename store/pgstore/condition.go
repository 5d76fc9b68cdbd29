package pgstore

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/internal/span"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// Condition is the state of the tables that relays work on.
type Condition struct {
	Relays    int // alive
	Lanes     int // all there are
	FreeLanes int // of no live relay
	OldRelays int // alive, and begun before the newest migration was applied
	Misplaced int // of a thousand messages of the outbox, those in another lane than their key's

	DaysAhead int // for which the archive should have a partition, today among them
	DaysReady int // of those, how many have one

	DeadRows   int64         // of the outbox, not yet vacuumed; the server's estimate
	LastVacuum time.Duration // ago, of the outbox; negative if there was none
}

// conditionSQL counts small tables and reads statistics, and a thousand rows of the outbox.
const conditionSQL = `
SELECT (SELECT count(*) FROM {relays} WHERE expires_at > {clock}()),
       (SELECT count(*) FROM {relays} WHERE expires_at > {clock}() AND started_at < (SELECT max(applied_at) FROM {schema_versions})),
       count(*), count(*) FILTER (WHERE owner IS NULL OR owner NOT IN (SELECT node FROM {relays} WHERE expires_at > {clock}())),
       (SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = $1::text::regclass),
       (SELECT coalesce(extract(epoch FROM clock_timestamp() - greatest(last_vacuum, last_autovacuum))::float8, -1)
          FROM pg_stat_all_tables WHERE relid = $1::text::regclass),
       (SELECT count(*) FROM (SELECT * FROM {outbox} LIMIT 1000) o WHERE o.lane <> {lane}(o.key, o.id))
  FROM {relay_lanes}`

// Condition returns the state of the tables. It needs the rights of a relay.
func (s *Store[Tx]) Condition(ctx context.Context) (Condition, error) {
	rows, err := s.core.DB.Query(ctx, s.names.render(conditionSQL), s.names.render("{outbox}"))
	c, _, err := sqldb.One(rows, err, scanCondition)
	if err != nil {
		return c, s.core.Kind(err)
	}
	missing, err := s.missingDays(ctx)
	c.DaysAhead = archiveDaysAhead + 1
	c.DaysReady = c.DaysAhead - len(missing)
	return c, s.core.Kind(err)
}

func scanCondition(r sqldb.Rows) (c Condition, err error) {
	var seconds float64
	err = r.Scan(&c.Relays, &c.OldRelays, &c.Lanes, &c.FreeLanes, &c.DeadRows, &seconds, &c.Misplaced)
	c.LastVacuum = span.Of(seconds, time.Second)
	return c, err
}
