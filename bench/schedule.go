package main

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill/store/pgstore"
)

// fillScheduledSQL schedules $2 messages whose ids begin with $1, the first of them at $3, the
// others $4 apart.
const fillScheduledSQL = `
INSERT INTO waybill.scheduled (lane, position, token, id, topic, direct, key, type, source, tenant, subject, payload_bytes, content_type, data_schema,
       correlation_id, causation_id, idempotency_key, trace_parent, trace_state, enqueued_at, deliver_at, due_at)
SELECT i % 64, -hashtextextended($1, i), $1 || i, $1 || i, '` + topic + `', false, '', '', 'bench', 'default', '', $5, '', '',
       '', '', '', '', '', now(), $3::timestamptz + i * $4::interval, $3::timestamptz + i * $4::interval
  FROM generate_series(1, $2::bigint) AS i`

// dueSQL selects the messages that become due during the experiment.
const dueSQL = `SELECT id, (extract(epoch FROM due_at) * 1e9)::bigint FROM waybill.scheduled WHERE due_at < now() + interval '1 day'`

// runSchedule measures how late messages that become due are published, 100 each second, next to a
// million that are scheduled for next month, and shows how they are found.
func runSchedule(ctx context.Context, b *bench) (rows []row, _ error) {
	n := b.size(1_000_000, 20_000)
	lateness := func(poll time.Duration) func(w *world) ([]row, error) {
		return func(w *world) ([]row, error) { return w.lateness(ctx, n, poll) }
	}
	plans := func(w *world) ([]row, error) { return w.explainDue(ctx, n) }
	for _, part := range []func(w *world) ([]row, error){lateness(0), lateness(100 * time.Millisecond), plans} {
		err := b.inWorld(ctx, func(w *world) error {
			if err := w.scheduleFar(ctx, n); err != nil {
				return err
			}
			more, err := part(w)
			rows = append(rows, more...)
			return err
		})
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// scheduleFar schedules n messages, spread over a day of next month.
func (w *world) scheduleFar(ctx context.Context, n int) error {
	const day = 24 * time.Hour
	if err := w.exec(ctx, fillScheduledSQL, "far-", n, time.Now().Add(30*day), day/time.Duration(n), make([]byte, w.payload)); err != nil {
		return err
	}
	return w.exec(ctx, "VACUUM ANALYZE")
}

// lateness runs a relay with a poll interval, 0 for the default, while messages become due.
func (w *world) lateness(ctx context.Context, far int, poll time.Duration) ([]row, error) {
	name, most := "default poll interval, 5 s", 5250.0
	if poll > 0 {
		name, most = fmt.Sprintf("poll interval %v", poll), 250+poll.Seconds()*1000
	}
	c, err := w.startRelay(ctx, job{Role: "relay", Notes: true, Poll: poll}, toNothing)
	if err != nil {
		return nil, err
	}
	defer c.kill()
	count := w.size(60, 3) * int(time.Second/pace)
	if err := w.exec(ctx, fillScheduledSQL, newName()+"-", count, time.Now().Add(3*time.Second), pace, make([]byte, w.payload)); err != nil {
		return nil, err
	}
	due, err := w.dueTimes(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.untilReleased(ctx, time.Duration(count)*pace); err != nil {
		return nil, err
	}
	if err := c.stop(); err != nil {
		return nil, err
	}
	said, err := c.state()
	if err != nil {
		return nil, err
	}
	values, err := latencies(due, said.Times)
	return []row{{table: number(float64(far)) + " messages scheduled for next month, 100 due per second", name: name, figures: []figure{
		{name: "p50", unit: "ms", values: []float64{quantile(values, 0.5)}},
		{"p99", "ms", []float64{quantile(values, 0.99)}, atMost(most)},
		{name: "most", unit: "ms", values: []float64{quantile(values, 1)}},
		{name: "messages", values: []float64{float64(len(values))}},
	}}}, err
}

// dueTimes returns when messages are due, in nanoseconds, by id.
func (w *world) dueTimes(ctx context.Context) (map[string]int64, error) {
	rows, err := w.pool.Query(ctx, dueSQL)
	if err != nil {
		return nil, err
	}
	due := make(map[string]int64)
	var id string
	var at int64
	_, err = pgx.ForEachRow(rows, []any{&id, &at}, func() error { due[id] = at; return nil })
	return due, err
}

// untilReleased waits until all messages that become due within the given time have left the
// store.
func (w *world) untilReleased(ctx context.Context, within time.Duration) error {
	for began := time.Now(); time.Since(began) < within+patience; time.Sleep(100 * time.Millisecond) {
		n, err := one[int](ctx, w, "SELECT count(*) FROM ("+dueSQL+" LIMIT 1) due")
		if err != nil {
			return err
		}
		if n == 0 {
			return w.untilEmpty(ctx)
		}
	}
	return fmt.Errorf("messages that were due are still scheduled after %v", within+patience)
}

// aboutScheduled matches statements about scheduled messages.
var aboutScheduled = regexp.MustCompile(`FROM "waybill"\."scheduled"`)

// explainDue releases some messages that are due, next to others that wait for a retry, and
// returns the plans of the statements. For an empty table PostgreSQL might choose any plan.
func (w *world) explainDue(ctx context.Context, far int) (rows []row, err error) {
	e := &explainer{about: aboutScheduled, seen: make(map[string]*plan)}
	if e.conn, err = pgx.Connect(ctx, w.url); err != nil {
		return nil, err
	}
	defer func() { _ = e.conn.Close(ctx) }()
	pool, err := openPool(ctx, w.url, 0, e)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	store, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		return nil, err
	}
	if _, err := waitingMessages(ctx, w); err != nil {
		return nil, err
	}
	if err := w.exec(ctx, "VACUUM ANALYZE"); err != nil {
		return nil, err
	}
	if err := w.exec(ctx, fillScheduledSQL, "explained-", 100, time.Now().Add(-time.Hour), time.Millisecond, make([]byte, w.payload)); err != nil {
		return nil, err
	}
	if _, err := store.ReleaseScheduled(ctx, 100); err != nil {
		return nil, err
	}
	for _, p := range e.list {
		rows = append(rows, p.row(number(float64(far))+" messages scheduled for next month"))
	}
	return rows, e.err
}
