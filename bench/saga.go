package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/store/pgstore"
)

// runSaga compares sagas with handlers that keep the state of a process in their own table.
func runSaga(ctx context.Context, b *bench) (rows []row, _ error) {
	return rows, b.inWorld(ctx, func(w *world) (err error) {
		if err := w.exec(ctx, tradesSQL); err != nil {
			return err
		}
		h, err := w.handling(ctx)
		if err != nil {
			return err
		}
		defer h.pool.Close()
		rows, err = h.compareSagas(ctx)
		return err
	})
}

// perTrade is how many messages each process has. The last one ends it.
const perTrade = 4

// trade is the state of a process.
type trade struct {
	Customer string   `json:"customer"`
	Cents    int      `json:"cents"`
	Lines    []string `json:"lines"`
}

// change applies a message to the state. It returns the message to send.
func (t *trade) change(m *waybill.Message) waybill.Message {
	t.Customer, t.Cents, t.Lines = "a customer", t.Cents+4711, append(t.Lines, m.ID)
	return waybill.Message{Topic: topic, Key: m.Key, Payload: m.Payload}
}

// The types of a trade's messages; every state has the name of the type that led to it.
var tradeTypes = [perTrade]string{"placed", "reserved", "charged", "shipped"}

const (
	tradesSQL = `
CREATE TABLE trades (key text PRIMARY KEY, state text NOT NULL, version bigint NOT NULL, data text NOT NULL, changed_at timestamptz NOT NULL);
CREATE TABLE trades_log (key text, version bigint, at timestamptz NOT NULL, message_id text, state text, PRIMARY KEY (key, version))`

	emptyTradesSQL = `TRUNCATE trades, trades_log, waybill.inbox, waybill.outbox, waybill.sagas, waybill.saga_log`

	readTradeSQL  = `SELECT version, data FROM trades WHERE key = $1`
	addTradeSQL   = `INSERT INTO trades VALUES ($1, $2, $4 + 1, $3, clock_timestamp()) ON CONFLICT DO NOTHING`
	writeTradeSQL = `UPDATE trades SET state = $2, data = $3, version = version + 1, changed_at = clock_timestamp() WHERE key = $1 AND version = $4`
	logTradeSQL   = `WITH t AS (%s RETURNING key, version, changed_at, state) INSERT INTO trades_log SELECT key, version, changed_at, $5, state FROM t`
)

// byHandTrade is a handler as a team would write it: a row for each process, read and written in
// the transaction of the inbox, and a message into the outbox.
type byHandTrade struct {
	read, add, write string
	logged           bool
	writer           *outbox.Writer[pgx.Tx]
}

func (h *byHandTrade) handle(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
	var version int64
	var text []byte
	var t trade
	write := h.write
	switch err := tx.QueryRow(ctx, h.read, m.Key).Scan(&version, &text); {
	case errors.Is(err, pgx.ErrNoRows):
		write = h.add
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(text, &t); err != nil {
			return err
		}
	}
	out := t.change(m)
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	args := []any{m.Key, m.Type, string(text), version}
	if h.logged {
		args = append(args, m.ID)
	}
	switch written, err := tx.Exec(ctx, write, args...); {
	case err != nil:
		return err
	case written.RowsAffected() == 0:
		return waybill.ConflictError(errors.New("somebody else was first"))
	}
	_, err = h.writer.Enqueue(ctx, tx, out)
	return err
}

// newTradeSaga returns the same as a saga.
func newTradeSaga(store *pgstore.Store[pgx.Tx], lock bool) (*saga.Saga[pgx.Tx, trade], error) {
	s, err := saga.New[pgx.Tx, trade](store, saga.Config{Name: "trades", Source: "bench", Topic: topic, Lock: lock, Observer: quiet})
	if err != nil {
		return nil, err
	}
	for i, typ := range tradeTypes {
		r := saga.Rule[pgx.Tx, trade]{Key: func(m *waybill.Message) (string, error) { return m.Key, nil }}
		if i == 0 {
			r.Missing = saga.Start
		}
		r.Do = func(_ context.Context, c *saga.Context[pgx.Tx, trade], m *waybill.Message) error {
			c.Publish(topic, c.Data.change(m))
			c.Become(typ)
			if i == perTrade-1 {
				c.Complete()
			}
			return nil
		}
		s.On(typ, r)
	}
	return s, nil
}

// tradeKind is one kind of handler.
type tradeKind struct {
	name, note string
	handle     consumer.Handler[pgx.Tx]
}

// tradeKinds returns the handlers over a store. Those by hand come first.
func tradeKinds(store *pgstore.Store[pgx.Tx]) ([]tradeKind, error) {
	writer, err := outbox.NewWriter(store, outbox.Config{Source: "bench", Observer: quiet})
	if err != nil {
		return nil, err
	}
	plain, err := newTradeSaga(store, false)
	if err != nil {
		return nil, err
	}
	locked, err := newTradeSaga(store, true)
	if err != nil {
		return nil, err
	}
	version := &byHandTrade{read: readTradeSQL, add: addTradeSQL, write: writeTradeSQL, writer: writer}
	lock := &byHandTrade{read: readTradeSQL + " FOR UPDATE", add: addTradeSQL, write: writeTradeSQL, writer: writer}
	logged := &byHandTrade{
		read: readTradeSQL, add: fmt.Sprintf(logTradeSQL, addTradeSQL), write: fmt.Sprintf(logTradeSQL, writeTradeSQL), logged: true, writer: writer,
	}
	return []tradeKind{
		{"by hand", "the row is read, and written if its version is still the same", version.handle},
		{"by hand, locked", "SELECT … FOR UPDATE", lock.handle},
		{"by hand, with a log", "the statement that writes the row writes an entry too", logged.handle},
		{"saga", "with its log", plain.Handle},
		{"saga, Config.Lock", "with its log", locked.Handle},
	}, nil
}

// caller returns a function that handles the next message of some process, in the transaction of
// the inbox. Messages of one process are never handled concurrently.
func (w *world) caller(store *pgstore.Store[pgx.Tx], handle consumer.Handler[pgx.Tx]) func(context.Context) error {
	free := make(chan waybill.Message, connections)
	for range connections {
		free <- waybill.Message{Type: tradeTypes[perTrade-1]}
	}
	after := map[string]string{}
	for i, typ := range tradeTypes {
		after[typ] = tradeTypes[(i+1)%perTrade]
	}
	return func(ctx context.Context) error {
		last := <-free
		m := w.arrival()
		m.Type, m.Key = after[last.Type], last.Key
		if m.Type == tradeTypes[0] {
			m.Key = uuid.NewString()
		}
		defer func() { free <- m }()
		_, err := inbox.Process(ctx, store, "trades", &m, func(ctx context.Context, tx pgx.Tx) error {
			return handle(waybill.WithMessage(ctx, &m), tx, &m)
		})
		return err
	}
}

// compareSagas lets the kinds take turns on empty tables.
func (h *handling) compareSagas(ctx context.Context) ([]row, error) {
	kinds, err := tradeKinds(h.inbox)
	if err != nil {
		return nil, err
	}
	list := make([]measured, len(kinds))
	for i, k := range kinds {
		list[i] = measured{k.name, k.note, func(ctx context.Context) (float64, error) {
			return flood(ctx, connections, h.slice(), h.caller(h.inbox, k.handle))
		}}
	}
	rates, err := h.turns(ctx, list, func(ctx context.Context) error { return h.exec(ctx, emptyTradesSQL) })
	if err != nil {
		return nil, err
	}
	statements, err := h.statementsPerMessage(ctx)
	if err != nil {
		return nil, err
	}
	rows := make([]row, len(kinds))
	for i, k := range kinds {
		figures := []figure{
			{name: "messages/s", values: rates[i]}, {name: "of by hand", unit: "%"}, {name: "of by hand with a log", unit: "%"},
			{name: "statements per message", values: statements[i : i+1]},
		}
		if i > 0 {
			figures[1].values = ratios(rates[i], rates[0])
		}
		if i > 2 {
			figures[1].want = atLeast(85)
			figures[2].values = ratios(rates[i], rates[2])
		}
		rows[i] = row{table: fmt.Sprintf("Processes of %d messages, 8 connections", perTrade), name: k.name, note: k.note, figures: figures}
	}
	return rows, nil
}

// statementsPerMessage counts what each kind sends, BEGIN and COMMIT included.
func (w *world) statementsPerMessage(ctx context.Context) ([]float64, error) {
	var sent counter
	pool, err := openPool(ctx, w.url, connections, &sent)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	store, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		return nil, err
	}
	kinds, err := tradeKinds(store)
	if err != nil {
		return nil, err
	}
	var list []float64
	for _, k := range kinds {
		do := w.caller(store, k.handle)
		before := sent.n.Load()
		for range connections * perTrade {
			if err := do(ctx); err != nil {
				return nil, fmt.Errorf("%s: %w", k.name, err)
			}
		}
		list = append(list, float64(sent.n.Load()-before)/(connections*perTrade))
	}
	return list, nil
}
