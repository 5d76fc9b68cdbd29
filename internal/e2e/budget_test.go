package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestStatementBudget counts what enqueue and relay ask of the database, in sessions that
// begin at READ COMMITTED; others add BEGIN and COMMIT to a claim and to a settlement.
func TestStatementBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sessions[0])
	counter := &statementCounter{}
	cfg, err := pgxpool.ParseConfig(w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Tracer = counter
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store, err := pgstore.New(pool, pgstore.Config{Schema: w.schema})
	if err != nil {
		t.Fatal(err)
	}
	writer, err := outbox.NewWriter(store, outbox.Config{Source: "shop", Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		counter.n.Store(0)
		_, err := writer.Enqueue(counted(t.Context()), tx, numbered("m", "orders", 100)...)
		if n := counter.n.Load(); n != 1 {
			t.Errorf("enqueue of 100 messages took %d statements, want 1", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for batch := range 9 {
		w.enqueue(t, numbered(fmt.Sprintf("b%d-", batch), "orders", 100)...)
	}
	// The first claim of a store asks once how sessions are set up.
	if _, err := store.ClaimMessages(t.Context(), relay.ClaimRequest{Lanes: []relay.Lane{{}}, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	relaySource := &countingSource{Source: store, counter: counter}
	pub := &recorder{}
	r, err := relay.New(relaySource, pub, quick(relay.Config{Parallelism: 1, Observer: quiet}))
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, t.Context(), r.Run)
	eventually(t, "all are published", func() bool { return len(pub.ids()) == 1000 })
	stop()
	batches := relaySource.batches.Load()
	if got := relaySource.statements.Load(); got > 3*batches {
		t.Errorf("the relay took %d statements for %d full batches, want at most 3 each", got, batches)
	}
	if batches < 5 {
		t.Errorf("only %d full batches were seen, want most of 10", batches)
	}
}

// statementCounter counts the statements that are run under a counted context.
type statementCounter struct{ n atomic.Int64 }

type countedKey struct{}

func counted(ctx context.Context) context.Context { return context.WithValue(ctx, countedKey{}, true) }

func (c *statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if ctx.Value(countedKey{}) != nil {
		c.n.Add(1)
	}
	return ctx
}

func (c *statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// countingSource adds up the statements of claims that found a full batch, and of their
// settlements. The relay that uses it has one batch under way at a time.
type countingSource struct {
	relay.Source
	counter             *statementCounter
	statements, batches atomic.Int64
	mu                  sync.Mutex
}

func (s *countingSource) ClaimMessages(ctx context.Context, req relay.ClaimRequest) ([]relay.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.counter.n.Load()
	claims, err := s.Source.ClaimMessages(counted(ctx), req)
	if len(claims) == req.Limit {
		s.batches.Add(1)
		s.statements.Add(s.counter.n.Load() - before)
	}
	return claims, err
}

func (s *countingSource) SettleMessages(ctx context.Context, req relay.SettleRequest) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.counter.n.Load()
	lost, err := s.Source.SettleMessages(counted(ctx), req)
	if len(req.Settlements) >= 100 {
		s.statements.Add(s.counter.n.Load() - before)
	}
	return lost, err
}
