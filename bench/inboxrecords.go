package main

import (
	"context"
	"fmt"

	wmessage "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

// What an inbox may hold already: keys as UUIDs of version 7 made in the past have them, one
// each millisecond, or random ones.
const (
	orderedKeys = `regexp_replace(lpad(to_hex(1600000000000 + i), 12, '0'), '(.{8})(.{4})', '\1-\2') || '-7' || substr(gen_random_uuid()::text, 16)`
	randomKeys  = `gen_random_uuid()::text`

	recordsSQL = `
INSERT INTO waybill.inbox (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, processed_at)
SELECT 'default', 'billing', 'bench', $3, k, k, $3, encode(sha256(k::bytea), 'hex'), clock_timestamp() - interval '1 day'
  FROM (SELECT i, %s AS k FROM generate_series($1::bigint, $2::bigint) AS s(i)) AS keys`
)

// fillInbox makes n records with the keys of an expression.
func (h *handling) fillInbox(ctx context.Context, n int, keys string) error {
	for from := 1; from <= n; from += chunk {
		if err := h.exec(ctx, fmt.Sprintf(recordsSQL, keys), from, min(n, from+chunk-1), topic); err != nil {
			return err
		}
	}
	return h.exec(ctx, "VACUUM ANALYZE waybill.inbox")
}

// handleBesideRecords measures the same with an inbox that is empty at first, and with one
// that holds many records.
func handleBesideRecords(ctx context.Context, h *handling) ([]row, error) {
	table := fmt.Sprintf("inbox.Process, 8 connections, beside %s records", number(float64(h.records)))
	once := []measured{h.flooding("none", "", h.first)}
	measure := func(fill func() error) ([]float64, error) {
		if err := h.emptyInbox(ctx); err != nil {
			return nil, err
		}
		if err := fill(); err != nil {
			return nil, err
		}
		if err := h.exec(ctx, "CHECKPOINT"); err != nil { // what was filled is not this one's to write
			return nil, err
		}
		rates, err := h.turns(ctx, once, func(ctx context.Context) error { return h.exec(ctx, "TRUNCATE business") })
		if err != nil {
			return nil, err
		}
		return rates[0], nil
	}
	none, err := measure(func() error { return nil })
	if err != nil {
		return nil, err
	}
	rows := []row{{table: table, name: "none", figures: []figure{{name: "messages/s", values: none}}}}
	for _, c := range []struct {
		name, keys string
		want       *bound
	}{{"time-ordered keys", orderedKeys, atLeast(80)}, {"random keys", randomKeys, nil}} {
		rates, err := measure(func() error { return h.fillInbox(ctx, h.records, c.keys) })
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{table: table, name: c.name, figures: []figure{
			{name: "messages/s", values: rates}, {"of none", "%", ratios(rates, none), c.want},
		}})
	}
	return rows, nil
}

// deduplicate is the peer: it keeps what it has seen in the memory of one process.
func deduplicate(ctx context.Context, h *handling) ([]row, error) {
	handle := (&middleware.Deduplicator{KeyFactory: middleware.NewMessageHasherSHA256(middleware.MessageHasherReadLimitMinimum << 10)}).
		Middleware(func(m *wmessage.Message) ([]*wmessage.Message, error) { return nil, h.bare(m.Context()) })
	do := func(ctx context.Context) error {
		m := h.arrival()
		payload := append([]byte(m.ID), m.Payload...) // it hashes the payload, and knows of no id
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
