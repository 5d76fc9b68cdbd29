package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/relay"
)

// quiet keeps log output out of the measurement.
var quiet = waybill.LogTo(slog.New(slog.DiscardHandler))

// drainer is a way to empty the backlog.
type drainer struct {
	name    string
	prepare string // a statement on the full table, {outbox}, before time is taken
	drain   func(ctx context.Context, w *world, pub relay.Publisher) error
}

var drainers = []drainer{
	{"the floor", "CREATE INDEX ON {outbox} (position)", drainFloor}, // it knows no lanes
	{"relay", "", drainRelay(relay.Config{Retention: relay.KeepNothing})},
	{"relay, archive on", "", drainRelay(relay.Config{})},
	{"relay, strict", "", drainRelay(relay.Config{Retention: relay.KeepNothing, Mode: relay.Strict})},
	{"relay, BatchSize 500", "", drainRelay(relay.Config{Retention: relay.KeepNothing, BatchSize: 500})},
}

// drainRelay runs a relay with the shipped defaults but for cfg until nothing is left.
func drainRelay(cfg relay.Config) func(context.Context, *world, relay.Publisher) error {
	return func(ctx context.Context, w *world, pub relay.Publisher) error {
		cfg.Observer = quiet
		r, err := relay.New(w.store, pub, cfg)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for empty := false; !empty && err == nil; {
			<-tick.C
			empty, err = w.empty(ctx)
		}
		stop()
		return firstError(err, <-ended)
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

const floorBatch = 500

// drainFloor is the least that any relay must do: one reader, rows by position in batches,
// published with asynchronous confirms while the next batch is read, deleted in one
// statement. It knows no retries, no leases and no other relays.
func drainFloor(ctx context.Context, w *world, pub relay.Publisher) error {
	after := int64(0)
	var settle func() error
	for {
		positions, out, err := w.read(ctx, after)
		if err != nil {
			return err
		}
		var wait func() []error
		if len(out) > 0 {
			after = positions[len(positions)-1]
			wait = pub.Send(ctx, out)
		}
		if settle != nil {
			if err := settle(); err != nil {
				return err
			}
		}
		if len(out) == 0 {
			return nil
		}
		settle = func() error {
			if err := firstError(wait()...); err != nil {
				return err
			}
			_, err := w.pool.Exec(ctx, "DELETE FROM "+w.name+".outbox WHERE position = ANY ($1)", positions)
			return err
		}
	}
}

// read returns the next batch behind a position.
func (w *world) read(ctx context.Context, after int64) ([]int64, []relay.Outgoing, error) {
	rows, err := w.pool.Query(ctx, fmt.Sprintf(`
SELECT position, id, topic, key, type, source, tenant, payload_bytes, content_type
  FROM %s.outbox WHERE position > $1 ORDER BY position LIMIT %d`, w.name, floorBatch), after)
	if err != nil {
		return nil, nil, err
	}
	var positions []int64
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (relay.Outgoing, error) {
		var position int64
		m := &waybill.Message{}
		err := r.Scan(&position, &m.ID, &m.Topic, &m.Key, &m.Type, &m.Source, &m.Tenant, &m.Payload, &m.ContentType)
		positions = append(positions, position)
		return relay.Outgoing{Message: m, DedupID: m.ID}, err
	})
	return positions, out, err
}
