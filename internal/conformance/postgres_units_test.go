package conformance

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestPostgres_BlockedKeyCostsOthersNothing: with statistics that say that most of what waits
// is of one key, a claim of other keys must still look only at them. Reading the table instead
// took seconds for each claim.
func TestPostgres_BlockedKeyCostsOthersNothing(t *testing.T) {
	t.Parallel()
	const behind, others = 20_000, 200
	w := newKeyWorld(t, newPostgres(t, nil, pgstore.Config{}))
	ready := pgx.Identifier{w.cfg.Schema, w.cfg.TablePrefix + "outbox"}.Sanitize()
	waiting := pgx.Identifier{w.cfg.Schema, w.cfg.TablePrefix + "outbox_waiting"}.Sanitize()
	_, err := w.pool.Exec(w.ctx, fmt.Sprintf(`
INSERT INTO %s (lane, position, id, topic, direct, key, type, source, tenant, subject, payload, content_type, data_schema,
       correlation_id, causation_id, idempotency_key, trace_parent, trace_state, enqueued_at, due_at)
SELECT 0, i, 'w' || i, 'orders', false, 'blocked', '', '', 'default', '', '', '', '', '', '', '', '', '', now(),
       CASE WHEN i = 1 THEN now() + interval '1 day' END
  FROM generate_series(1, %d) AS i`, waiting, behind))
	must(t, err)
	_, err = w.pool.Exec(w.ctx, "ANALYZE "+waiting)
	must(t, err)
	_, err = w.s.Transact(w.ctx, func(context.Context, pgx.Tx) (b outbox.Batch, _ error) {
		for i := range others {
			m := waybill.Message{Topic: "orders", Key: fmt.Sprint("key", i)}
			m.Complete()
			b.Messages = append(b.Messages, m)
		}
		return b, nil
	})
	must(t, err)

	// Sessions report what they have read, all of it at once, at the latest when they end.
	w.pool.Reset()
	waitFor(t, "what was prepared has been counted", func() bool { return w.inserted(waiting) == behind && w.inserted(ready) == others })
	before := w.scanned(waiting)
	pool, err := pgxpool.NewWithConfig(w.ctx, w.pool.Config())
	must(t, err)
	s, err := pgstore.New(pool, w.cfg)
	must(t, err)
	claims, err := s.ClaimMessages(w.ctx, contract.ClaimRequest{Lanes: w.lanes, Limit: 1000, Due: true, Again: numbersOf(w.lanes)})
	must(t, err)
	if len(claims) != others {
		t.Errorf("%d messages claimed, want %d", len(claims), others)
	}
	pool.Close()
	var after scans
	waitFor(t, "the claim has been counted", func() bool { after = w.scanned(waiting); return after.scans > before.scans })
	if read := after.rows - before.rows; read > behind {
		t.Errorf("a claim of %d messages has read %d waiting rows one after the other, want none but a few", others, read)
	}
}

// scans says how often a table was read, and how many rows without an index.
type scans struct{ scans, rows int64 }

func (w *keyWorld) scanned(table string) (s scans) {
	w.t.Helper()
	err := w.pool.QueryRow(w.ctx, "SELECT seq_scan + idx_scan, seq_tup_read FROM pg_stat_user_tables WHERE relid = $1::regclass", table).Scan(&s.scans, &s.rows)
	must(w.t, err)
	return s
}

func (w *keyWorld) inserted(table string) (n int) {
	w.t.Helper()
	err := w.pool.QueryRow(w.ctx, "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relid = $1::regclass", table).Scan(&n)
	must(w.t, err)
	return n
}
