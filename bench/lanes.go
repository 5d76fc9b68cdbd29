package main

import (
	"context"
	"fmt"
	"time"
)

// start starts the process of a job on the world.
func (w *world) start(ctx context.Context, j job, to string) (*child, error) {
	j.Postgres, j.To = w.url, w.destination(to)
	j.To.Name = w.name
	c, err := spawn(ctx, j)
	if err != nil {
		return nil, err
	}
	return c, c.begin()
}

// startRelay starts a process with the only relay and waits until it owns all lanes.
func (w *world) startRelay(ctx context.Context, j job, to string) (*child, error) {
	c, err := w.start(ctx, j, to)
	if err != nil {
		return nil, err
	}
	if _, err := w.untilShared(ctx, 1); err != nil {
		c.kill()
		return nil, err
	}
	return c, nil
}

// sharesSQL says whether every lane has an owner, how many owners there are, and how many
// more lanes one of them has than an even share, rounded up.
const sharesSQL = `
SELECT (SELECT bool_and(owner IS NOT NULL) FROM waybill.relay_lanes),
       count(*)::int, coalesce(max(n), 0)::int, (SELECT count(*)::int FROM waybill.relay_lanes)
  FROM (SELECT count(*) AS n FROM waybill.relay_lanes WHERE owner IS NOT NULL GROUP BY owner) AS s`

// untilShared waits until the given number of relays share the lanes evenly, and returns how
// long it took.
func (w *world) untilShared(ctx context.Context, relays int) (time.Duration, error) {
	began := time.Now()
	for time.Since(began) < time.Minute {
		var owned bool
		var owners, most, lanes int
		if err := w.pool.QueryRow(ctx, sharesSQL).Scan(&owned, &owners, &most, &lanes); err != nil {
			return 0, err
		}
		if owned && owners == relays && most <= (lanes+relays-1)/relays {
			return time.Since(began), nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0, fmt.Errorf("%d relays do not share the lanes evenly after a minute", relays)
}
