package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// floorIndexSQL serves the floor, which knows no lanes.
const floorIndexSQL = "CREATE INDEX ON waybill.outbox (position)"

const floorReadSQL = `
SELECT position, id, topic, key, type, source, tenant, payload_bytes, content_type, enqueued_at
  FROM waybill.outbox WHERE position > $1 ORDER BY position LIMIT $2`

// floorBatch is how many rows the floor reads at once.
const floorBatch = 500

const floorDeleteSQL = `DELETE FROM waybill.outbox WHERE position = ANY ($1)`

// floorJob is the minimum for a hand-written relay: one reader, rows by position in batches of 500, published with
// asynchronous confirms while the next batch is read, deleted in one statement. It sends what a relay sends, byte for
// byte. It knows no retries, no leases and no other relays.
func floorJob(ctx context.Context, c *client) error {
	return c.publishing(ctx, func(run context.Context, pool *pgxpool.Pool, pub *publisher) (err error) {
		times := newConfirmations(pub.Publisher)
		switch {
		case c.Listen:
			err = followWoken(run, pool, times, c.add)
		case c.Poll > 0:
			err = followByHand(run, pool, pub, c.Poll, c.add)
		default:
			_, err = drainByHand(run, pool, pub, c.add)
		}
		if err != nil {
			return err
		}
		<-run.Done()
		if c.Notes {
			c.tell(report{Times: times.all()})
		}
		c.tellTaken(pub)
		return nil
	})
}

// publishing opens what a publishing loop needs, and calls do once the parent gives the signal, with a context that
// ends when it is to stop.
func (c *client) publishing(ctx context.Context, do func(run context.Context, pool *pgxpool.Pool, pub *publisher) error) error {
	pool, pub, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	defer pub.close()
	run, err := c.start(ctx)
	if err != nil {
		return err
	}
	return do(run, pool, pub)
}

// tellTaken reports the count of a publisher whose broker does not count.
func (c *client) tellTaken(pub *publisher) {
	if pub.taken != nil {
		c.tell(report{Taken: pub.taken()})
	}
}

// followByHand drains repeatedly until ctx ends, and sleeps when it has found nothing. Each time begins with the first
// row: a transaction may commit later than one with a later position.
func followByHand(ctx context.Context, pool *pgxpool.Pool, pub contract.Publisher, poll time.Duration, settled func(int)) error {
	for {
		n, err := drainByHand(ctx, pool, pub, settled)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if n == 0 {
			time.Sleep(poll)
		}
	}
}

const wakeChannel = "bench_wake"

// followWoken drains whenever a transaction has notified it, until ctx ends. As in [followByHand] each time begins with
// the first row.
func followWoken(ctx context.Context, pool *pgxpool.Pool, pub contract.Publisher, settled func(int)) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "LISTEN "+wakeChannel); err != nil {
		return err
	}
	for err == nil {
		if _, err = drainByHand(ctx, pool, pub, settled); err == nil {
			_, err = conn.Conn().WaitForNotification(ctx)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// drainByHand reads until a batch is not full, and returns how many messages it has sent.
func drainByHand(ctx context.Context, pool *pgxpool.Pool, pub contract.Publisher, settled func(int)) (n int, _ error) {
	after, settle := int64(0), func() error { return nil }
	for {
		positions, out, err := readByHand(ctx, pool, after)
		if err != nil {
			return n, err
		}
		if len(out) == 0 {
			return n, settle()
		}
		after = positions[len(positions)-1]
		n += len(out)
		wait := pub.Send(ctx, out)
		if err := settle(); err != nil {
			return n, err
		}
		settle = func() error {
			if err := errors.Join(wait()...); err != nil {
				return err
			}
			tag, err := pool.Exec(ctx, floorDeleteSQL, positions)
			settled(int(tag.RowsAffected()))
			return err
		}
		if len(out) < floorBatch {
			return n, settle()
		}
	}
}

func readByHand(ctx context.Context, pool *pgxpool.Pool, after int64) ([]int64, []contract.Outgoing, error) {
	rows, err := pool.Query(ctx, floorReadSQL, after, floorBatch)
	if err != nil {
		return nil, nil, err
	}
	var positions []int64
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (contract.Outgoing, error) {
		var position int64
		m := &waybill.Message{}
		err := r.Scan(&position, &m.ID, &m.Topic, &m.Key, &m.Type, &m.Source, &m.Tenant, &m.Payload, &m.ContentType, &m.Time)
		m.Type, m.Time = cmp.Or(m.Type, m.Topic), m.Time.UTC()
		positions = append(positions, position)
		return contract.Outgoing{Message: m, DedupID: m.ID}, err
	})
	return positions, out, err
}
