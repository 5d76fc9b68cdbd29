package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill/contract"
)

// situation is a condition that must not slow a drain down.
type situation struct {
	name    string
	note    string
	want    *bound
	archive bool // drain into the archive, in the baseline too
	foreign bool // another relay owns half of the lanes, in the baseline too

	// arrange establishes it before the backlog is created, and returns how to end it.
	arrange func(ctx context.Context, w *world) (end func(), err error)
}

var situations = []situation{
	{name: "2 million archived messages", want: atLeast(95), archive: true, arrange: archived},
	{name: "a read-only snapshot held open", want: atLeast(95), arrange: openSnapshot},
	{name: "a writing transaction idle in another database", want: atLeast(95), arrange: openElsewhere},
	{name: "a transaction that has enqueued stays open", want: atLeast(95), arrange: openWriter},
	{name: "a million messages in lanes of another relay", want: atLeast(95), foreign: true, arrange: foreignBacklog},
	{name: "a blocked key with 100,000 messages behind it", want: atLeast(95), arrange: blockedKey},
	{name: "100,000 messages waiting for a retry", want: atLeast(95), arrange: waitingMessages},
}

// runFlat compares drains in each situation with drains without it, alternately.
func runFlat(ctx context.Context, b *bench) ([]row, error) {
	var rows []row
	for _, s := range situations {
		var base, with []float64
		for range b.repeats {
			without := s
			without.arrange = nil
			d, err := b.drainIn(ctx, without)
			if err != nil {
				return rows, fmt.Errorf("baseline of %s: %w", s.name, err)
			}
			base = append(base, d.rate)
			if d, err = b.drainIn(ctx, s); err != nil {
				return rows, fmt.Errorf("%s: %w", s.name, err)
			}
			with = append(with, d.rate)
		}
		rows = append(rows, row{table: "Drained to a publisher that does nothing", name: s.name, note: s.note, figures: []figure{
			{name: "messages/s without", values: base},
			{name: "messages/s with", values: with},
			{"of without", "%", ratios(with, base), s.want},
		}})
	}
	memory, err := b.memory(ctx)
	return append(rows, memory...), err
}

func (b *bench) drainIn(ctx context.Context, s situation) (d drained, _ error) {
	return d, b.inWorld(ctx, func(w *world) (err error) {
		keys := keySet{}
		if s.foreign {
			if err := w.exec(ctx, anotherSQL); err != nil {
				return err
			}
			if keys, err = w.keysByOwner(ctx); err != nil {
				return err
			}
		}
		if s.arrange != nil {
			end, err := s.arrange(ctx, w)
			if err != nil {
				return err
			}
			defer end()
		}
		if err := w.exec(ctx, "CHECKPOINT"); err != nil { // of what was arranged; not within the run
			return err
		}
		if s.foreign {
			err = w.fillKeys(ctx, keys.ours, w.messages)
		} else {
			err = w.fill(ctx, w.messages)
		}
		if err != nil {
			return err
		}
		j := job{Role: "relay", Messages: w.messages, Archive: s.archive}
		d, err = w.drain(ctx, j, b.destination(toNothing), b.postgres)
		return err
	})
}

// memory measures the peak memory of a relay with a long backlog.
func (b *bench) memory(ctx context.Context) ([]row, error) {
	long := *b
	long.messages = b.size(1_000_000, 20_000)
	d, err := long.drainIn(ctx, situation{})
	return []row{{table: "Memory of the relay's process", name: "backlog of " + number(float64(long.messages)), figures: []figure{
		{"resident at most", "MB", known([]float64{d.memory}), atMost(150)},
	}}}, err
}

// moveOutboxSQL moves the whole outbox to another table, whose further columns are added.
const moveOutboxSQL = `INSERT INTO waybill.%[1]s (%[2]s, %[3]s) SELECT %[2]s, %[4]s FROM waybill.outbox`

// sharedColumnsSQL lists the columns that the outbox and another table have in common.
const sharedColumnsSQL = `
SELECT string_agg(quote_ident(o.attname), ', ')
  FROM pg_attribute o JOIN pg_attribute t ON t.attname = o.attname AND t.attrelid = ('waybill.' || $1::text)::regclass
 WHERE o.attrelid = 'waybill.outbox'::regclass AND o.attnum > 0 AND NOT o.attisdropped`

// moveOutbox moves the whole outbox to another table and sets columns there.
func (w *world) moveOutbox(ctx context.Context, table, columns, values string) error {
	shared, err := one[string](ctx, w, sharedColumnsSQL, table)
	if err != nil {
		return err
	}
	if err := w.exec(ctx, fmt.Sprintf(moveOutboxSQL, table, shared, columns, values)); err != nil {
		return err
	}
	return w.exec(ctx, "TRUNCATE waybill.outbox")
}

func archived(ctx context.Context, w *world) (func(), error) {
	if _, err := w.store.MaintainArchive(ctx, contract.MaintainRequest{Retention: 7 * 24 * time.Hour, BatchSize: 1000}); err != nil { // creates today's partition
		return nil, err
	}
	for left := w.size(2_000_000, 20_000); left > 0; left -= chunk {
		if err := w.fill(ctx, min(left, chunk)); err != nil {
			return nil, err
		}
		if err := w.moveOutbox(ctx, "outbox_archive", "published_at", "clock_timestamp()"); err != nil {
			return nil, err
		}
	}
	return func() {}, nil
}

// hold begins a transaction at the URL, runs a statement in it and leaves it open.
func hold(ctx context.Context, url string, options pgx.TxOptions, sql string) (end func(), _ error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	end = func() { _ = conn.Close(context.WithoutCancel(ctx)) } // which rolls back
	tx, err := conn.BeginTx(ctx, options)
	if err == nil {
		_, err = tx.Exec(ctx, sql)
	}
	if err != nil {
		end()
		return nil, err
	}
	return end, nil
}

func openSnapshot(ctx context.Context, w *world) (func(), error) {
	return hold(ctx, w.url, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, "SELECT count(*) FROM waybill.outbox")
}

func openElsewhere(ctx context.Context, w *world) (func(), error) {
	return hold(ctx, w.postgres, pgx.TxOptions{}, "SELECT pg_current_xact_id()")
}

func openWriter(ctx context.Context, w *world) (func(), error) {
	return hold(ctx, w.url, pgx.TxOptions{}, "INSERT INTO waybill.outbox (topic, payload) VALUES ('"+topic+"', '{}')")
}

// keySet are keys by the owner of their lanes.
type keySet struct{ ours, theirs []string }

// anotherSQL gives half of the lanes to a relay that does not exist.
const anotherSQL = `
WITH another AS (
    INSERT INTO waybill.relays (node, started_at, expires_at) VALUES ('another', now(), now() + interval '1 day')
)
UPDATE waybill.relay_lanes SET owner = 'another', epoch = epoch + 1, since = now()
 WHERE lane < (SELECT count(*) / 2 FROM waybill.relay_lanes)`

// keysByOwner finds keys of lanes that are free, and of lanes of another relay. The database
// says which lane a key belongs to.
func (w *world) keysByOwner(ctx context.Context) (keys keySet, _ error) {
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		return keys, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // the rows were only for lookup
	if _, err := tx.Exec(ctx, "INSERT INTO waybill.outbox (topic, key) SELECT $1, 'f' || i FROM generate_series(1, 2000) AS i", topic); err != nil {
		return keys, err
	}
	return keys, tx.QueryRow(ctx, `
SELECT array_agg(o.key) FILTER (WHERE l.owner IS NULL), array_agg(o.key) FILTER (WHERE l.owner IS NOT NULL)
  FROM waybill.outbox o JOIN waybill.relay_lanes l USING (lane)`).Scan(&keys.ours, &keys.theirs)
}

// fillKeys enqueues n messages with the given keys in rotation.
func (w *world) fillKeys(ctx context.Context, keys []string, n int) error {
	return w.exec(ctx, `
INSERT INTO waybill.outbox (id, topic, key, source, payload_bytes)
SELECT gen_random_uuid()::text, $4, ($1::text[])[1 + i % cardinality($1::text[])], 'bench', $3 FROM generate_series(1, $2::int) AS i`,
		keys, n, make([]byte, w.payload), topic)
}

func foreignBacklog(ctx context.Context, w *world) (func(), error) {
	keys, err := w.keysByOwner(ctx)
	if err != nil {
		return nil, err
	}
	return func() {}, w.fillKeys(ctx, keys.theirs, w.size(1_000_000, 20_000))
}

func blockedKey(ctx context.Context, w *world) (func(), error) { return w.park(ctx, 1) }

func waitingMessages(ctx context.Context, w *world) (func(), error) {
	return w.park(ctx, w.size(100_000, 2_000))
}

// parkedValues make the first row of each key wait for an hour, and the others behind it.
const parkedValues = `1, 'refused', CASE WHEN row_number() OVER (PARTITION BY key ORDER BY position) = 1 THEN now() + interval '1 hour' END`

// park creates 100,000 waiting rows of the given number of keys.
func (w *world) park(ctx context.Context, keys int) (func(), error) {
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("blocked%d", i)
	}
	if err := w.fillKeys(ctx, names, w.size(100_000, 2_000)); err != nil {
		return nil, err
	}
	return func() {}, w.moveOutbox(ctx, "outbox_waiting", "attempts, error, due_at", parkedValues)
}
