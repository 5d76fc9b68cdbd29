package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/store/pgstore"
)

// heard keeps the latest statement with the given beginning.
type heard struct {
	beginning string

	mu   sync.Mutex
	text string
}

func (h *heard) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sql := strings.TrimSpace(q.SQL); strings.HasPrefix(sql, h.beginning) {
		h.text = sql
	}
	return ctx
}

func (*heard) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestPostgres_LastPositionDrawn: the last position that a claim takes for drawn has been drawn. While nextval
// writes to the log, the row of a sequence holds a number up to 32 ahead; a claim that believed it would take rows for read that
// are yet to come. One look in some ten thousand met that.
func TestPostgres_LastPositionDrawn(t *testing.T) {
	t.Parallel()
	const writers, looks = 3, 400_000
	p := newPostgres(t, nil, pgstore.Config{})
	cfg := p.schema(t)
	h := &heard{beginning: "WITH drawn AS MATERIALIZED ("}
	config := p.pool.Config()
	config.ConnConfig.Tracer = h
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	defer pool.Close()
	store, err := pgstore.New(pool, cfg)
	must(t, err)
	lease, err := store.RenewLanes(t.Context(), contract.LeaseRequest{Node: "r", Join: true, TTL: patience})
	must(t, err)
	_, err = store.ClaimMessages(t.Context(), contract.ClaimRequest{Lanes: lease.Lanes, Limit: 1})
	must(t, err)
	drawn, _, found := strings.Cut(h.text, "), look AS")
	if !found {
		t.Fatalf("a claim no longer begins with what was drawn: %.200q", h.text)
	}
	sequence := "'" + tableOf(cfg, "outbox_position_seq") + "'"

	busy, stop := context.WithCancel(t.Context())
	var drawing sync.WaitGroup
	for range writers {
		drawing.Go(func() {
			for busy.Err() == nil { // until it is stopped
				_, _ = p.pool.Exec(busy, "SELECT max(nextval("+sequence+")) FROM generate_series(1, 100000)")
			}
		})
	}
	ahead, err := aheadOf(t.Context(), p.pool, drawn, sequence, looks)
	stop()
	drawing.Wait()
	must(t, err)
	if ahead > 0 {
		t.Errorf("%d of %d looks have seen a position that was not drawn yet", ahead, looks)
	}
}

// aheadOf counts the looks that show more than the sequence has drawn just after.
func aheadOf(ctx context.Context, pool *pgxpool.Pool, drawn, sequence string, looks int) (ahead int, err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, fmt.Sprintf(`
DO $$
DECLARE
    seen bigint;
    exact bigint;
    ahead int := 0;
BEGIN
    FOR i IN 1..%d LOOP
        %s) SELECT last, pg_sequence_last_value(%s::regclass) INTO seen, exact FROM drawn;
        IF seen > exact THEN
            ahead := ahead + 1;
        END IF;
    END LOOP;
    PERFORM set_config('waybill.ahead', ahead::text, false);
END $$`, looks, drawn, sequence)); err != nil {
		return 0, err
	}
	err = conn.QueryRow(ctx, "SELECT current_setting('waybill.ahead')::int").Scan(&ahead)
	return ahead, err
}
