package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// triggersSQL finds the triggers that notify relays of a commit, whatever their names.
const triggersSQL = `SELECT tgname FROM pg_trigger WHERE tgrelid = 'waybill.outbox'::regclass AND NOT tgisinternal ORDER BY tgname`

// runWakeups compares business transactions at full speed with the wake-up and without it,
// in alternating pairs, next to a relay that drains the table. The relay polls often: one
// that slept whenever the wake-up is off would leave the whole machine to the writers.
func runWakeups(ctx context.Context, b *bench) (rows []row, _ error) {
	for _, connections := range []int{8, 32} {
		err := b.inWorld(ctx, func(w *world) error {
			r, err := w.wakeups(ctx, connections)
			rows = append(rows, r)
			return err
		})
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

func (w *world) wakeups(ctx context.Context, connections int) (row, error) {
	r := row{table: "Business transactions with an enqueue at full speed, wake-up on against off", name: fmt.Sprintf("%d connections", connections)}
	found, err := w.pool.Query(ctx, triggersSQL)
	if err != nil {
		return r, err
	}
	triggers, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return r, err
	}
	if len(triggers) == 0 {
		r.note = "the outbox has no trigger that could be switched off: nothing was measured"
		r.figures = []figure{{name: "pairs"}}
		return r, nil
	}
	l, err := w.writers(ctx, w.url, connections)
	if err != nil {
		return r, err
	}
	defer l.pool.Close()
	c, err := w.startRelay(ctx, job{Role: "relay", Poll: 10 * time.Millisecond}, toNothing)
	if err != nil {
		return r, err
	}
	defer c.kill()
	on, off, err := w.pairs(ctx, l, connections, triggers)
	if err != nil {
		return r, err
	}
	share := ratios(on, off)
	low, high := interval(share)
	r.figures = []figure{
		{name: "transactions/s, off", values: off},
		{name: "transactions/s, on", values: on},
		{name: "median of on / off", unit: "%", values: []float64{median(share)}},
		{"its 95 % interval from", "%", []float64{low}, atLeast(97)},
		{name: "to", unit: "%", values: []float64{high}},
		{name: "pairs", values: []float64{float64(len(share))}},
	}
	return r, c.stop()
}

// pairs measures pairs of a second each, every other one in the opposite order.
func (w *world) pairs(ctx context.Context, l *writers, connections int, triggers []string) (on, off []float64, _ error) {
	turn := time.Duration(w.size(1000, 200)) * time.Millisecond
	for pair := range w.size(40, 6) {
		var rates [2]float64 // off, on
		for i := range 2 {
			enabled := (pair + i) % 2
			if err := w.setTriggers(ctx, triggers, enabled == 1); err != nil {
				return nil, nil, err
			}
			rate, err := flood(ctx, connections, turn, l.enqueue)
			if err != nil {
				return nil, nil, err
			}
			rates[enabled] = rate
			if err := w.untilEmpty(ctx); err != nil { // each turn starts from the same state
				return nil, nil, err
			}
		}
		off, on = append(off, rates[0]), append(on, rates[1])
	}
	return on, off, nil
}

func (w *world) setTriggers(ctx context.Context, names []string, enabled bool) error {
	what := "DISABLE"
	if enabled {
		what = "ENABLE"
	}
	for _, name := range names {
		if err := w.exec(ctx, "ALTER TABLE waybill.outbox "+what+" TRIGGER "+pgx.Identifier{name}.Sanitize()); err != nil {
			return err
		}
	}
	return nil
}
