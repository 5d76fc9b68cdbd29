package conformance

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/store/pgstore"
)

// stall holds the first statement with the given beginning until it is released: the program
// stands still, as after SIGSTOP, within its transaction.
type stall struct {
	statement         string
	stalled, released chan struct{}
}

func (s *stall) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if len(q.SQL) >= len(s.statement) && strings.EqualFold(q.SQL[:len(s.statement)], s.statement) {
		close(s.stalled)
		<-s.released
	}
	return ctx
}

func (*stall) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestPostgresStore_StalledRenewal: a relay that is stopped while it renews keeps nobody
// else from renewing for longer than the server's two seconds.
func TestPostgresStore_StalledRenewal(t *testing.T) {
	t.Parallel()
	p := newPostgres(t, nil, pgstore.Config{})
	schema := p.schema(t)
	s := &stall{statement: "DELETE FROM " + tableOf(schema, "relays"), stalled: make(chan struct{}), released: make(chan struct{})}
	cfg, err := pgxpool.ParseConfig(postgresURL())
	must(t, err)
	cfg.ConnConfig.Tracer = s
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	stopped, err := pgstore.New(pool, schema)
	must(t, err)
	other, err := pgstore.New(p.pool, schema)
	must(t, err)

	result := make(chan error)
	go func() {
		_, err := stopped.RenewLanes(context.Background(), contract.LeaseRequest{Node: "stopped", Join: true, TTL: time.Minute})
		result <- err
	}()
	<-s.stalled
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := other.RenewLanes(ctx, contract.LeaseRequest{Node: "other", Join: true, TTL: time.Minute})
	close(s.released)
	if err != nil || len(lease.Lanes) != 64 {
		t.Errorf("the other relay's RenewLanes = %d lanes, %v, want all", len(lease.Lanes), err)
	}
	if err := <-result; err == nil {
		t.Error("the stopped renewal has succeeded although its transaction was ended")
	}
}

// TestPostgresStore_StalledSettlement: where a settlement is a transaction of several round trips, a
// relay that is cut off within it keeps its rows locked for no longer than the server's two seconds.
func TestPostgresStore_StalledSettlement(t *testing.T) {
	t.Parallel()
	p := newPostgres(t, nil, pgstore.Config{})
	schema := p.schema(t)
	s := &stall{statement: "commit", stalled: make(chan struct{}), released: make(chan struct{})}
	cfg, err := pgxpool.ParseConfig(postgresURL())
	must(t, err)
	cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	store, err := pgstore.New(pool, schema)
	must(t, err)
	lease, err := store.RenewLanes(t.Context(), contract.LeaseRequest{Node: "r", Join: true, TTL: time.Minute})
	must(t, err)
	_, err = p.pool.Exec(t.Context(), "INSERT INTO "+tableOf(schema, "outbox")+" (topic, payload) VALUES ('orders', '1')")
	must(t, err)
	claims, err := store.ClaimMessages(t.Context(), contract.ClaimRequest{Lanes: lease.Lanes, Limit: 10})
	must(t, err)
	settle := func(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
		_, err := store.SettleMessages(ctx, contract.SettleRequest{Node: "r", Settlements: []contract.Settlement{{Claim: &claims[0], Outcome: contract.Published}}})
		return err
	}

	cfg.ConnConfig.Tracer = s
	cut, err := pgxpool.NewWithConfig(context.Background(), cfg)
	must(t, err)
	t.Cleanup(cut.Close)
	stopped, err := pgstore.New(cut, schema)
	must(t, err)
	result := make(chan error)
	go func() { result <- settle(context.Background(), stopped) }()
	<-s.stalled
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = settle(ctx, store)
	close(s.released)
	if err != nil {
		t.Errorf("SettleMessages() over another connection = %v, want the rows free", err)
	}
	<-result
}

// TestPostgresStore_SettlementWaitsForTakeover: a settlement that meets the transaction which
// takes the relay for dead waits for its end, and then changes nothing.
func TestPostgresStore_SettlementWaitsForTakeover(t *testing.T) {
	t.Parallel()
	p := newPostgres(t, nil, pgstore.Config{})
	schema := p.schema(t)
	store, err := pgstore.New(p.pool, schema)
	must(t, err)
	lease, err := store.RenewLanes(t.Context(), contract.LeaseRequest{Node: "old", Join: true, TTL: time.Minute})
	must(t, err)
	_, err = p.pool.Exec(t.Context(), "INSERT INTO "+tableOf(schema, "outbox")+" (topic, payload) VALUES ('orders', '1')")
	must(t, err)
	claims, err := store.ClaimMessages(t.Context(), contract.ClaimRequest{Lanes: lease.Lanes, Limit: 10})
	must(t, err)

	takeover, err := p.pool.Begin(t.Context())
	must(t, err)
	_, err = takeover.Exec(t.Context(), "DELETE FROM "+tableOf(schema, "relays"))
	must(t, err)
	_, err = takeover.Exec(t.Context(), "UPDATE "+tableOf(schema, "relay_lanes")+" SET owner = 'new', epoch = epoch + 1")
	must(t, err)
	lost := make(chan []int, 1)
	go func() {
		numbers, err := store.SettleMessages(t.Context(), contract.SettleRequest{
			Node: "old", Settlements: []contract.Settlement{{Claim: &claims[0], Outcome: contract.Published}},
		})
		if err != nil {
			t.Errorf("SettleMessages: %v", err)
		}
		lost <- numbers
	}()
	waitsSQL := "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'"
	for waiting := 0; waiting == 0 && len(lost) == 0; {
		must(t, p.pool.QueryRow(t.Context(), waitsSQL, tableOf(schema, "outbox")).Scan(&waiting))
	}
	must(t, takeover.Commit(t.Context()))
	if numbers := <-lost; len(numbers) != 1 || numbers[0] != claims[0].Lane.Number {
		t.Errorf("lost lanes = %v, want that of the message", numbers)
	}
	var left int
	must(t, p.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+tableOf(schema, "outbox")).Scan(&left))
	if left != 1 {
		t.Errorf("%d messages are left, want the one that the new owner will publish", left)
	}
}
