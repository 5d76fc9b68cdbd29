package main

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/deadletter"
)

// fillLettersSQL creates dead letters of 200 groups, one in five of a consumer, over the
// last 30 days: nine in ten of them in twenty large groups.
const fillLettersSQL = `
INSERT INTO waybill.dead_letters (lane, position, id, topic, direct, key, type, source, tenant, subject, payload_bytes, content_type, data_schema,
       correlation_id, causation_id, idempotency_key, trace_parent, trace_state, enqueued_at,
       origin, consumer, alias, message_key, reason, error, attempts, first_failed_at, last_failed_at, fingerprint)
SELECT i % 64, i, gen_random_uuid()::text, 'topic' || g % 20, false, 'key' || i % 5000, 'type' || g % 40, 'bench', 'tenant' || i % 50, '',
       $2, 'application/json', '', '', '', '', '', '', at,
       CASE WHEN g % 5 = 0 THEN 'consumer' ELSE 'relay' END, CASE WHEN g % 5 = 0 THEN 'consumer' || g % 3 ELSE '' END, '', 'm' || i,
       'exhausted', 'the server said no to request ' || i || ' because of ' || g, 6, at, at, 'group' || g
  FROM (SELECT i, CASE WHEN i % 11 = 0 THEN i / 11 % 200 ELSE i % 20 * 10 END AS g,
               now() - interval '30 days' + i * (interval '30 days' / $1::bigint) AS at
          FROM generate_series(1, $1::bigint) AS i) l`

// runLetters measures an operator's queries on a store with a million dead letters.
func runLetters(ctx context.Context, b *bench) (rows []row, _ error) {
	return rows, b.inWorld(ctx, func(w *world) error {
		n := w.size(1_000_000, 10_000)
		if err := w.exec(ctx, fillLettersSQL, n, make([]byte, w.payload)); err != nil {
			return err
		}
		if err := w.store.FoldDeadLetters(ctx); err != nil {
			return err
		}
		if err := w.exec(ctx, "VACUUM ANALYZE"); err != nil {
			return err
		}
		for _, q := range w.letterQueries(n) {
			values, err := w.repeat(ctx, q.ask)
			if err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			rows = append(rows, row{table: number(float64(n)) + " dead letters in 200 groups", name: q.name, figures: []figure{
				{"p50", "ms", []float64{quantile(values, 0.5)}, nil},
				{"p95", "ms", []float64{quantile(values, 0.95)}, atMost(100)},
			}})
		}
		return nil
	})
}

// letterQuery is a query of an operator.
type letterQuery struct {
	name string
	ask  func(ctx context.Context) error
}

func (w *world) letterQueries(n int) []letterQuery {
	day := time.Now().Add(-time.Hour)
	list := func(f deadletter.Filter) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := w.store.DeadLetters(ctx, f)
			return err
		}
	}
	return []letterQuery{
		{"groups, with their trend", func(ctx context.Context) error { _, err := w.store.DeadLetterGroups(ctx, 100); return err }},
		{"list, the oldest", list(deadletter.Filter{})},
		{"list, the newest", list(deadletter.Filter{Newest: true})},
		{"list, a page in the middle", list(deadletter.Filter{After: int64(n / 2)})},
		{"by topic", list(deadletter.Filter{Topic: "topic7"})},
		{"by type, the newest", list(deadletter.Filter{Type: "type13", Newest: true})},
		{"by tenant", list(deadletter.Filter{Tenant: "tenant49"})},
		{"by consumer", list(deadletter.Filter{Consumer: "consumer1"})},
		{"by a topic that is none", list(deadletter.Filter{Topic: "none"})},
		{"by group", list(deadletter.Filter{Fingerprint: "group7"})},
		{"by message", list(deadletter.Filter{MessageID: "none"})},
		{"of the last hour", list(deadletter.Filter{Since: day})},
		{"of the last hour, by a text that is not there", list(deadletter.Filter{Since: day, Text: "nobody said this"})},
		{"of a small group, by a text that is not there", list(deadletter.Filter{Fingerprint: "group7", Text: "nobody said this"})},
		{"of a large group, by a text that is not there", list(deadletter.Filter{Fingerprint: "group10", Text: "nobody said this"})},
		{"of the last day, by a text that is not there", list(deadletter.Filter{Since: day.Add(-23 * time.Hour), Text: "nobody said this"})},
	}
}

// repeat runs a query many times, after a first time that does not count, and returns the
// milliseconds.
func (w *world) repeat(ctx context.Context, ask func(ctx context.Context) error) ([]float64, error) {
	if err := ask(ctx); err != nil {
		return nil, err
	}
	values := make([]float64, w.size(100, 5))
	for i := range values {
		began := time.Now()
		if err := ask(ctx); err != nil {
			return nil, err
		}
		values[i] = time.Since(began).Seconds() * 1000
	}
	return values, nil
}
