package e2e

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/contract"
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
	for _, size := range []int{1, 100} {
		err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			counter.n.Store(0)
			_, err := writer.Enqueue(counted(t.Context()), tx, numbered(fmt.Sprintf("m%d-", size), "orders", size)...)
			if n := counter.n.Load(); n != 1 {
				t.Errorf("enqueue of %d messages took %d statements, want 1", size, n)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range 9 {
		w.enqueue(t, numbered(fmt.Sprintf("b%d-", n), "orders", 100)...)
	}
	source := &countingSource{store}
	pub := &recorder{}
	counter.n.Store(0)
	r, err := relay.New(source, pub, quick(relay.Config{Observer: quiet}))
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), r.Run)
	eventually(t, "all are settled", func() bool { return r.Status().Published == 1001 && r.Status().Held == 0 })
	if n := counter.n.Load(); n > 30 {
		t.Errorf("the relay took %d statements for ten batches, want at most 3 each", n)
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

// countingSource has the statements of claims and settlements counted.
type countingSource struct{ contract.Source }

func (s *countingSource) ClaimMessages(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	return s.Source.ClaimMessages(counted(ctx), req)
}

func (s *countingSource) SettleMessages(ctx context.Context, req contract.SettleRequest) ([]int, error) {
	return s.Source.SettleMessages(counted(ctx), req)
}

// TestIdleBudget counts what a relay with the shipped intervals asks of the database while
// there is nothing to do: a renewal of the lease every 2 s, and two statements every 5 s at
// the poll. The relay is not woken by itself.
func TestIdleBudget(t *testing.T) {
	t.Parallel()
	const (
		window = 10 * time.Second
		limit  = 10
	)
	w := newWorld(t, sessions[0])
	counter := &idleCounter{}
	cfg, err := pgxpool.ParseConfig(w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Tracer = counter // of the connection that listens, too
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store, err := pgstore.New(pool, pgstore.Config{Schema: w.schema})
	if err != nil {
		t.Fatal(err)
	}
	r, err := relay.New(store, &recorder{}, relay.Config{Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), r.Run)
	w.asleep(t)
	eventually(t, "the start is over", func() bool { return counter.quietFor(time.Second) })
	before, began := len(counter.list()), time.Now()
	<-time.After(window) // what is measured
	ran, took := counter.list()[before:], time.Since(began)
	// The timer of a busy machine is late.
	if limit := int(math.Round(limit * took.Seconds() / window.Seconds())); len(ran) > limit {
		t.Errorf("an idle relay ran %d statements in %v, want at most %d:\n%s", len(ran), took, limit, strings.Join(ran, "\n"))
	}
}

// idleCounter lists statements.
type idleCounter struct {
	mu   sync.Mutex
	seen []string
	last time.Time
}

func (c *idleCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	c.note(data.SQL)
	return ctx
}

func (*idleCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *idleCounter) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what = strings.Join(strings.Fields(what), " ")
	c.seen, c.last = append(c.seen, what[:min(60, len(what))]), time.Now()
}

func (c *idleCounter) quietFor(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.last) > d
}

func (c *idleCounter) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}
