package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	wmessage "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

// runInbox compares handling a message through the inbox with handling it without, and with a
// hand-written inbox.
func runInbox(ctx context.Context, b *bench) (rows []row, _ error) {
	for _, part := range []func(context.Context, *handling) ([]row, error){handleOnce, handleBatches, deduplicate} {
		more, err := b.handle(ctx, part)
		rows = append(rows, more...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// handle runs one part with a separate database.
func (b *bench) handle(ctx context.Context, part func(context.Context, *handling) ([]row, error)) ([]row, error) {
	h, err := b.newHandling(ctx)
	if err != nil {
		return nil, err
	}
	defer h.close()
	return part(ctx, h)
}

// handling is one consumer's handlers of several kinds on one pool. Each writes one business
// row per message.
type handling struct {
	*world
	pool  *pgxpool.Pool
	inbox *pgstore.Store[pgx.Tx]
	seen  waybill.Message // was handled before
}

func (w *world) handling(ctx context.Context) (*handling, error) {
	if err := w.exec(ctx, businessTableSQL); err != nil {
		return nil, err
	}
	h := &handling{world: w}
	var err error
	if h.pool, err = openPool(ctx, w.url, connections, nil); err != nil {
		return nil, err
	}
	if h.inbox, err = pgstore.New(h.pool, pgstore.Config{}); err != nil {
		h.pool.Close()
		return nil, err
	}
	return h, nil
}

// newHandling creates a world and the handlers in it, which close removes.
func (b *bench) newHandling(ctx context.Context) (*handling, error) {
	w, err := b.newWorld(ctx)
	if err != nil {
		return nil, err
	}
	h, err := w.handling(ctx)
	if err != nil {
		w.close()
		return nil, err
	}
	return h, nil
}

func (h *handling) close() {
	h.pool.Close()
	h.world.close()
}

// arrival returns a message as a broker delivers it.
func (s settings) arrival() waybill.Message {
	return waybill.Message{
		ID: uuid.Must(uuid.NewV7()).String(), Topic: topic, Type: topic, Source: "bench", Tenant: waybill.DefaultTenant, Payload: make([]byte, s.payload),
	}
}

func business(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, businessSQL, "a customer", 4711)
	return err
}

const (
	handGateSQL = `
INSERT INTO waybill.inbox (tenant, consumer, source, alias, message_key, message_id, type, payload_hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`

	// handGatesSQL is the same for messages of one kind.
	handGatesSQL = `
INSERT INTO waybill.inbox (tenant, consumer, source, alias, message_key, message_id, type, payload_hash)
SELECT $1, $2, $3, $4, id, id, $4, hash FROM unnest($5::text[], $6::text[]) AS m(id, hash) ON CONFLICT DO NOTHING`

	businessManySQL = `INSERT INTO business (customer, amount) SELECT 'a customer', 4711 FROM generate_series(1, $1)`
)

// bare handles a message without an inbox.
func (h *handling) bare(ctx context.Context) error {
	return pgx.BeginFunc(ctx, h.pool, func(tx pgx.Tx) error { return business(ctx, tx) })
}

// byHand is the same with an inbox insert that is sent together with BEGIN.
func (h *handling) byHand(ctx context.Context) error {
	m := h.arrival()
	return handleByHand(ctx, h.pool, &m)
}

// handleByHand handles a message unless it was handled before.
func handleByHand(ctx context.Context, pool *pgxpool.Pool, m *waybill.Message) error {
	sum := sha256.Sum256(m.Payload)
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	isNew := false
	batch := &pgx.Batch{}
	batch.Queue("BEGIN")
	batch.Queue(handGateSQL, m.Tenant, "billing", m.Source, m.Type, m.ID, m.ID, m.Type, hex.EncodeToString(sum[:])).
		Exec(func(tag pgconn.CommandTag) error { isNew = tag.RowsAffected() == 1; return nil })
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	if isNew {
		if _, err := conn.Exec(ctx, businessSQL, "a customer", 4711); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "COMMIT")
	return err
}

// manyByHand handles a hundred messages: BEGIN and their inbox insert in one round trip, what effects
// queues and COMMIT in another.
func (h *handling) manyByHand(ctx context.Context, effects func(*pgx.Batch, int)) error {
	ids, hashes := make([]string, hundred), make([]string, hundred)
	var m waybill.Message
	for i := range ids {
		m = h.arrival()
		sum := sha256.Sum256(m.Payload)
		ids[i], hashes[i] = m.ID, hex.EncodeToString(sum[:])
	}
	conn, err := h.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	gate := &pgx.Batch{}
	gate.Queue("BEGIN")
	gate.Queue(handGatesSQL, m.Tenant, "billing", m.Source, m.Type, ids, hashes)
	if err := conn.SendBatch(ctx, gate).Close(); err != nil {
		return err
	}
	rest := &pgx.Batch{}
	effects(rest, hundred)
	rest.Queue("COMMIT")
	return conn.SendBatch(ctx, rest).Close()
}

// hundred is the size of a batch.
const hundred = 100

func queueEach(batch *pgx.Batch, n int) {
	for range n {
		batch.Queue(businessSQL, "a customer", 4711)
	}
}

func queueAll(batch *pgx.Batch, n int) { batch.Queue(businessManySQL, n) }

func (h *handling) process(ctx context.Context, m *waybill.Message) error {
	_, err := inbox.Process(ctx, h.inbox, "billing", m, business)
	return err
}

func (h *handling) first(ctx context.Context) error {
	m := h.arrival()
	return h.process(ctx, &m)
}

func (h *handling) duplicate(ctx context.Context) error { return h.process(ctx, &h.seen) }

// measured is a contender: it runs for a turn and returns messages per second.
type measured struct {
	name, note string
	run        func(ctx context.Context) (float64, error)
}

// flooding is a contender that is called continuously on each connection.
func (h *handling) flooding(name, note string, do func(context.Context) error) measured {
	return measured{name, note, func(ctx context.Context) (float64, error) { return flood(ctx, connections, h.slice(), do) }}
}

// consuming is a contender that is a consumer, fed as fast as it accepts messages.
func (h *handling) consuming(name, note string, f *feed, cfg consumer.Config, many consumer.BatchHandler[pgx.Tx]) measured {
	return measured{name, note, func(ctx context.Context) (float64, error) { return h.feed(ctx, f, cfg, many) }}
}

// turns lets contenders take turns, each round in another order, and returns the rates of each. before
// runs before each turn.
func (s settings) turns(ctx context.Context, list []measured, before func(context.Context) error) ([][]float64, error) {
	return measure(ctx, s.rounds(), list, before)
}

// measure is turns with a number of rounds.
func measure(ctx context.Context, rounds int, list []measured, before func(context.Context) error) ([][]float64, error) {
	rates := make([][]float64, len(list))
	return rates, inTurns(rounds, len(list), func(at int) error {
		if err := before(ctx); err != nil {
			return err
		}
		rate, err := list[at].run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", list[at].name, err)
		}
		rates[at] = append(rates[at], rate)
		return nil
	})
}

// emptyInbox removes all records except that of a message seen before.
func (h *handling) emptyInbox(ctx context.Context) error {
	if err := h.exec(ctx, "TRUNCATE business, waybill.inbox"); err != nil {
		return err
	}
	h.seen = h.arrival()
	return h.process(ctx, &h.seen)
}

func handleOnce(ctx context.Context, h *handling) ([]row, error) {
	const table = "One message per transaction, 8 connections"
	list := []measured{
		h.flooding("no inbox", "BEGIN, one business INSERT, COMMIT: what comes twice has its effect twice", h.bare),
		h.flooding("by hand", "BEGIN and the gate in one round trip, the business INSERT, COMMIT, into the same table", h.byHand),
		h.flooding("inbox.Process", "", h.first),
		h.consuming("consumer", "with a broker that has everything in memory", &feed{}, consumer.Config{}, nil),
		h.flooding("a duplicate", "inbox.Process with a message that was processed before", h.duplicate),
	}
	rates, err := h.turns(ctx, list, h.emptyInbox)
	if err != nil {
		return nil, err
	}
	rows := make([]row, len(list))
	for i, c := range list {
		rows[i] = row{table: table, name: c.name, note: c.note, figures: []figure{{name: "messages/s", values: rates[i]}}}
	}
	add := func(i int, f figure) { rows[i].figures = append(rows[i].figures, f) }
	for i, want := range []*bound{1: nil, 2: atLeast(88), 3: atLeast(80)}[1:] {
		add(i+1, figure{"of no inbox", "%", ratios(rates[i+1], rates[0]), want})
	}
	add(2, figure{"of the same by hand", "%", ratios(rates[2], rates[1]), atLeast(95)})
	add(3, figure{"of the same by hand", "%", ratios(rates[3], rates[1]), nil})
	add(4, figure{"cost, of a first", "%", ratios(rates[2], rates[4]), atMost(25)})
	return rows, nil
}

// times divides each value by the one at the same index.
func times(values, by []float64) []float64 {
	list := ratios(values, by)
	for i := range list {
		list[i] /= 100
	}
	return list
}

func handleBatches(ctx context.Context, h *handling) ([]row, error) {
	const table = "Consumers with 8 handlers at a time"
	batches := consumer.Config{BatchSize: hundred}
	byHand := func(name, note string, effects func(*pgx.Batch, int)) measured {
		do := func(ctx context.Context) error { return h.manyByHand(ctx, effects) }
		return measured{name, note, func(ctx context.Context) (float64, error) {
			rate, err := flood(ctx, connections, h.slice(), do)
			return rate * hundred, err
		}}
	}
	queued := pgstore.Queued(func(_ context.Context, batch *pgx.Batch, _ *waybill.Message) error {
		queueEach(batch, 1)
		return nil
	})
	many := func(ctx context.Context, tx pgx.Tx, msgs []*waybill.Message) error {
		_, err := tx.Exec(ctx, businessManySQL, len(msgs))
		return err
	}
	list := []measured{
		h.consuming("one per transaction", "", &feed{}, consumer.Config{}, nil),
		h.consuming("batches of 100", "each handler with an INSERT of its own", &feed{}, batches, nil),
		h.consuming("batches of 100, 1 % fail", "one handler in a hundred fails in the batch and once by itself; its message comes again after 10 ms", &feed{failing: hundred}, batches, nil),
		byHand("by hand, queued", "BEGIN and the gate of a hundred in one round trip, a hundred INSERTs and COMMIT in another, 8 connections", queueEach),
		h.consuming("Queued, 100", "consumer.NewBatch with pgstore.Queued, and an INSERT queued for each", &feed{}, batches, queued),
		byHand("by hand, one INSERT", "the same with one INSERT for all", queueAll),
		h.consuming("HandleBatch, 100", "consumer.NewBatch with one INSERT for all", &feed{}, batches, many),
	}
	rates, err := h.turns(ctx, list, h.emptyInbox)
	if err != nil {
		return nil, err
	}
	rows := make([]row, len(list))
	for i, c := range list {
		rows[i] = row{table: table, name: c.name, note: c.note, figures: []figure{{name: "messages/s", values: rates[i]}}}
	}
	add := func(i int, f figure) { rows[i].figures = append(rows[i].figures, f) }
	wants := []*bound{nil, atLeast(4), nil, nil, nil, nil, atLeast(12)}
	for i := 1; i < len(rows); i++ {
		add(i, figure{"times one per transaction", "", times(rates[i], rates[0]), wants[i]})
	}
	add(2, figure{"of none failing", "%", ratios(rates[2], rates[1]), atLeast(60)})
	add(4, figure{"of the same by hand", "%", ratios(rates[4], rates[3]), atLeast(60)})
	add(6, figure{"of the same by hand", "%", ratios(rates[6], rates[5]), atLeast(80)})
	return rows, nil
}

// deduplicate measures the peer, which keeps what it has seen in the memory of one process.
func deduplicate(ctx context.Context, h *handling) ([]row, error) {
	handle := (&middleware.Deduplicator{KeyFactory: middleware.NewMessageHasherSHA256(middleware.MessageHasherReadLimitMinimum << 10)}).
		Middleware(func(m *wmessage.Message) ([]*wmessage.Message, error) { return nil, h.bare(m.Context()) })
	do := func(ctx context.Context) error {
		m := h.arrival()
		payload := append([]byte(m.ID), m.Payload...) // it hashes the payload, and ignores ids
		msg := wmessage.NewMessage(m.ID, payload)
		msg.SetContext(ctx)
		_, err := handle(msg)
		return err
	}
	list := []measured{h.flooding("watermill Deduplicator", "github.com/ThreeDotsLabs/watermill v1.5.1, SHA-256 of the payload, 8 connections. "+
		"In the memory of one process, for a minute: a restart, another replica or a handler that fails after the look let the message through or lose it", do)}
	rates, err := h.turns(ctx, list, h.emptyInbox)
	if err != nil {
		return nil, err
	}
	return []row{{table: "A peer, with the business transaction of no inbox", name: list[0].name, note: list[0].note,
		figures: []figure{{name: "messages/s", values: rates[0]}}}}, nil
}
