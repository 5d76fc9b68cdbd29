package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
)

const connections = 8

// runWriters compares transactions with a message with those without, and with hand-written
// ones.
func runWriters(ctx context.Context, b *bench) (rows []row, _ error) {
	return rows, b.inWorld(ctx, func(w *world) error {
		for _, part := range []func(context.Context, *world) ([]row, error){overhead, overheadLate, bulk, besideRelay} {
			more, err := part(ctx, w)
			rows = append(rows, more...)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func overhead(ctx context.Context, w *world) ([]row, error) {
	return w.compareWriters(ctx, "8 connections, loopback", w.url, nil)
}

func overheadLate(ctx context.Context, w *world) ([]row, error) {
	url, closeProxy, err := delayed(w.url)
	if err != nil {
		return nil, err
	}
	defer closeProxy()
	return w.compareWriters(ctx, fmt.Sprintf("8 connections, round trip %v", roundTrip), url, atLeast(97))
}

// kind is a kind of transaction that is compared with others.
type kind struct {
	name    string
	note    string
	do      func(context.Context) error
	hand    int // the kind of the hand-written equivalent; 0 is none
	ofHand  *bound
	ofPlain *bound
}

func (w *world) compareWriters(ctx context.Context, name, url string, helper *bound) ([]row, error) {
	l, err := w.writers(ctx, url, connections)
	if err != nil {
		return nil, err
	}
	defer l.pool.Close()
	kinds := []kind{
		{name: "plain", note: "BEGIN, one business INSERT, COMMIT", do: l.plain},
		{name: "by hand", note: "the message in a round trip of its own, into the same table", do: l.byHand},
		{name: "by hand, with COMMIT", note: "the message and COMMIT in one round trip, into the same table", do: l.byHandWithCommit},
		{name: "Writer.Enqueue", do: l.enqueue, hand: 1, ofHand: atLeast(100)},
		{name: "Writer.InTx", do: l.inTx, hand: 2, ofHand: atLeast(97), ofPlain: helper},
	}
	rates, err := w.alternate(ctx, kinds)
	if err != nil {
		return nil, err
	}
	rows := make([]row, len(kinds))
	for i, k := range kinds {
		var ofPlain, ofHand []float64
		if i > 0 {
			ofPlain = ratios(rates[i], rates[0])
		}
		if k.hand > 0 {
			ofHand = ratios(rates[i], rates[k.hand])
		}
		rows[i] = row{table: name, name: k.name, note: k.note, figures: []figure{
			{name: "transactions/s", values: rates[i]},
			{"of plain", "%", ofPlain, k.ofPlain},
			{"of the same by hand", "%", ofHand, k.ofHand},
		}}
	}
	return rows, nil
}

// rounds is how often the kinds take turns; slice is how long each turn lasts.
func (s settings) rounds() int          { return s.size(max(10, s.repeats), 2) }
func (s settings) slice() time.Duration { return time.Duration(s.size(1500, 250)) * time.Millisecond }

// inTurns calls do for each of n contenders in each round, starting with another one each time.
func inTurns(rounds, n int, do func(at int) error) error {
	for round := range rounds {
		for i := range n {
			if err := do((i + round) % n); err != nil {
				return err
			}
		}
	}
	return nil
}

// alternate lets the kinds take turns on empty tables, each round in another order, and returns
// the rates of each.
func (w *world) alternate(ctx context.Context, kinds []kind) ([][]float64, error) {
	rates := make([][]float64, len(kinds))
	return rates, inTurns(w.rounds(), len(kinds), func(at int) error {
		if err := w.emptyTables(ctx); err != nil {
			return err
		}
		rate, err := flood(ctx, connections, w.slice(), kinds[at].do)
		if err != nil {
			return fmt.Errorf("%s: %w", kinds[at].name, err)
		}
		rates[at] = append(rates[at], rate)
		return nil
	})
}

func (w *world) emptyTables(ctx context.Context) error {
	return w.exec(ctx, "TRUNCATE business, waybill.outbox")
}

const bulkSize = 1000

// bulk compares many messages in one transaction with one bare INSERT of as many rows.
func bulk(ctx context.Context, w *world) ([]row, error) {
	l, err := w.writers(ctx, w.url, 1)
	if err != nil {
		return nil, err
	}
	defer l.pool.Close()
	ways := []func(context.Context) error{l.bulkByHand, l.bulkEnqueue}
	rates := make([][]float64, len(ways))
	for range w.rounds() {
		for i, do := range ways {
			if err := w.emptyTables(ctx); err != nil {
				return nil, err
			}
			rate, err := flood(ctx, 1, w.slice(), do)
			if err != nil {
				return nil, err
			}
			rates[i] = append(rates[i], rate*bulkSize)
		}
	}
	const name = "1,000 messages per transaction, one connection"
	return []row{
		{table: name, name: "bare INSERT", note: "one statement with arrays of the values, into the same table",
			figures: []figure{{name: "rows/s", values: rates[0]}}},
		{table: name, name: "Writer.Enqueue",
			figures: []figure{{name: "rows/s", values: rates[1]}, {"of the bare INSERT", "%", ratios(rates[1], rates[0]), atLeast(95)}}},
	}, nil
}

const bulkSQL = `
INSERT INTO waybill.outbox (id, topic, key, source, payload_bytes)
SELECT i.id, $2, i.key, 'bench', i.payload FROM unnest($1::text[], $3::text[], $4::bytea[]) AS i(id, key, payload)`

func (l *writers) bulkByHand(ctx context.Context) error {
	ids, keys, payloads := make([]string, bulkSize), make([]string, bulkSize), make([][]byte, bulkSize)
	for i := range ids {
		ids[i], keys[i], payloads[i] = uuid.Must(uuid.NewV7()).String(), l.key(), l.payload
	}
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, bulkSQL, ids, topic, keys, payloads)
		return err
	})
}

func (l *writers) bulkEnqueue(ctx context.Context) error {
	msgs := make([]waybill.Message, bulkSize)
	for i := range msgs {
		msgs[i] = l.message()
	}
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		_, err := l.writer.Enqueue(ctx, tx, msgs...)
		return err
	})
}

// besideRelay floods the table with and without a relay that drains it to NATS.
func besideRelay(ctx context.Context, w *world) ([]row, error) {
	l, err := w.writers(ctx, w.url, connections)
	if err != nil {
		return nil, err
	}
	defer l.pool.Close()
	var alone, beside, left []float64
	for range w.rounds() {
		if err := w.emptyTables(ctx); err != nil {
			return nil, err
		}
		rate, err := flood(ctx, connections, w.slice(), l.inTx)
		if err != nil {
			return nil, err
		}
		alone = append(alone, rate)
		rate, rest, err := w.floodBesideRelay(ctx, l)
		if err != nil {
			return nil, err
		}
		beside, left = append(beside, rate), append(left, rest)
	}
	const name = "Writer.InTx at full speed, 8 connections"
	return []row{
		{table: name, name: "alone", figures: []figure{{name: "transactions/s", values: alone}}},
		{table: name, name: "with a relay to NATS", figures: []figure{
			{name: "transactions/s", values: beside},
			{"of alone", "%", ratios(beside, alone), atLeast(85)},
			{"backlog 0.5 s after the end", "messages", left, atMost(0)},
		}},
	}, nil
}

func (w *world) floodBesideRelay(ctx context.Context, l *writers) (rate, left float64, _ error) {
	return rate, left, w.besideTurn(ctx, contender{job: job{Role: "relay"}}, func(*child) (err error) {
		if rate, err = flood(ctx, connections, w.slice(), l.inTx); err != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond)
		n, err := w.left(ctx)
		left = float64(n)
		return err
	})
}
