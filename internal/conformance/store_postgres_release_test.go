package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestPostgresStore_ReleaseLosesNobody lets a dead letter be released by one process while the
// relay of another settles messages of the same key, in both orders: the first one stops
// right before its commit until the second one waits for it, or has ended. Nothing may be
// left without a due time.
func TestPostgresStore_ReleaseLosesNobody(t *testing.T) {
	p := newPostgres(t, nil, pgstore.Config{})
	resolve := func(w *keyWorld) error {
		_, err := w.s.ResolveDeadLetter(w.ctx, w.letter, deadletter.Act{By: "test"})
		return err
	}
	requeue := func(w *keyWorld) error {
		_, err := w.s.RequeueDeadLetter(w.ctx, w.letter, deadletter.Act{By: "test"})
		return err
	}
	settle := func(w *keyWorld) error { return w.settle(w.pending) }
	for _, tc := range []struct {
		name    string
		prepare func(w *keyWorld)
		pause   string // the change whose transaction stops before its commit
		first   func(w *keyWorld) error
		second  func(w *keyWorld) error
		want    []string // what is published then, in order
	}{
		{"follower, then resolved", (*keyWorld).parked, "INSERT ON outbox_waiting", settle, resolve, []string{"a2"}},
		{"resolved, then follower", (*keyWorld).parked, "UPDATE ON dead_letters", resolve, settle, []string{"a2"}},
		{"follower, then requeued", (*keyWorld).parked, "INSERT ON outbox_waiting", settle, requeue, []string{"a1", "a2"}},
		{"requeued, then follower", (*keyWorld).parked, "DELETE ON dead_letters", requeue, settle, []string{"a1", "a2"}},
		{"published before it, then requeued", (*keyWorld).deadBehindHead, "DELETE ON outbox_waiting", settle, requeue, []string{"a2"}},
		{"requeued, then published before it", (*keyWorld).deadBehindHead, "DELETE ON dead_letters", requeue, settle, []string{"a2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newKeyWorld(t, p)
			tc.prepare(w)
			gate := w.pauseBeforeCommit(tc.pause)
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- tc.first(w) }()
			pid := gate.waiter()
			go func() { second <- tc.second(w) }()
			gate.blockedOrDone(pid, second)
			gate.open()
			must(t, errors.Join(<-first, <-second))
			if got := w.publishAll(); !slices.Equal(got, tc.want) {
				t.Errorf("published %v, want %v", got, tc.want)
			}
		})
	}
}

// keyWorld is a store with messages of one key, and a relay that owns all lanes.
type keyWorld struct {
	t       *testing.T
	ctx     context.Context
	pool    *pgxpool.Pool
	cfg     pgstore.Config
	s       *pgstore.Store[pgx.Tx]
	lanes   []contract.Lane
	letter  int64
	pending []contract.Settlement // what the relay is about to settle
}

func newKeyWorld(t *testing.T, p *postgres) *keyWorld {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cfg := p.newSchema(t)
	t.Cleanup(func() { p.drop(t, cfg) })
	s, err := pgstore.New(p.pool, cfg)
	must(t, err)
	lease, err := s.RenewLanes(ctx, contract.LeaseRequest{Node: "r1", Join: true, TTL: time.Hour})
	must(t, err)
	return &keyWorld{t: t, ctx: ctx, pool: p.pool, cfg: cfg, s: s, lanes: lease.Lanes}
}

func (w *keyWorld) enqueue(ids ...string) {
	w.t.Helper()
	_, err := w.s.Transact(w.ctx, func(context.Context, pgx.Tx) (b outbox.Batch, _ error) {
		for _, id := range ids {
			m := waybill.Message{ID: id, Topic: "orders", Key: "k", Source: "shop"}
			m.Complete()
			b.Messages = append(b.Messages, m)
		}
		return b, nil
	})
	must(w.t, err)
}

func (w *keyWorld) claim() []contract.Claim {
	w.t.Helper()
	claims, err := w.s.ClaimMessages(w.ctx, contract.ClaimRequest{Lanes: w.lanes, Limit: 100, Due: true, Again: numbersOf(w.lanes)})
	must(w.t, err)
	return claims
}

func numbersOf(lanes []contract.Lane) []int {
	list := make([]int, len(lanes))
	for i, l := range lanes {
		list[i] = l.Number
	}
	return list
}

func (w *keyWorld) settle(list []contract.Settlement) error {
	lost, err := w.s.SettleMessages(w.ctx, contract.SettleRequest{Node: "r1", Settlements: list})
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("lost lanes %v", lost)
	}
	return err
}

func (w *keyWorld) findLetter() {
	w.t.Helper()
	letters, err := w.s.DeadLetters(w.ctx, deadletter.Filter{})
	must(w.t, err)
	w.letter = letters[0].Number
}

// parked lets a1 park the key; a2 is about to go behind it.
func (w *keyWorld) parked() {
	w.t.Helper()
	w.enqueue("a1")
	must(w.t, w.settle([]contract.Settlement{{Claim: &w.claim()[0], Outcome: contract.Dead, Park: true, Reason: waybill.ReasonRejected}}))
	w.findLetter()
	w.enqueue("a2")
	w.pending = []contract.Settlement{{Claim: &w.claim()[0], Outcome: contract.Wait, Behind: true}}
}

// deadBehindHead makes a2 a dead letter while a1 waits; a1 is about to be published.
func (w *keyWorld) deadBehindHead() {
	w.t.Helper()
	w.enqueue("a1", "a2")
	claims := w.claim()
	must(w.t, w.settle([]contract.Settlement{
		{Claim: &claims[0], Outcome: contract.Wait, Attempts: 1},
		{Claim: &claims[1], Outcome: contract.Dead, Reason: waybill.ReasonRejected},
	}))
	w.findLetter()
	w.pending = []contract.Settlement{{Claim: &w.claim()[0], Outcome: contract.Published}}
}

func (w *keyWorld) publishAll() (ids []string) {
	w.t.Helper()
	for claims := w.claim(); len(claims) > 0; claims = w.claim() {
		var list []contract.Settlement
		for i := range claims {
			ids = append(ids, claims[i].Message.ID)
			list = append(list, contract.Settlement{Claim: &claims[i], Outcome: contract.Published})
		}
		must(w.t, w.settle(list))
	}
	return ids
}

// gate keeps transactions from committing until it is opened.
type gate struct {
	w    *keyWorld
	conn *pgxpool.Conn
	key  int64
}

// pauseBeforeCommit makes transactions with a change, such as "INSERT ON outbox", stop before
// their commit.
func (w *keyWorld) pauseBeforeCommit(change string) *gate {
	w.t.Helper()
	conn, err := w.pool.Acquire(w.ctx)
	must(w.t, err)
	g := &gate{w: w, conn: conn, key: int64(rand.Int32())}
	w.t.Cleanup(func() { conn.Conn().Close(context.Background()); conn.Release() })
	_, err = conn.Exec(w.ctx, "SELECT pg_advisory_lock($1)", g.key)
	must(w.t, err)
	var event, table string
	_, err = fmt.Sscanf(change, "%s ON %s", &event, &table)
	must(w.t, err)
	pause := pgx.Identifier{w.cfg.Schema, "pause"}.Sanitize()
	_, err = conn.Exec(w.ctx, fmt.Sprintf(`
		CREATE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(%d); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER pause AFTER %s ON %s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION %s()`,
		pause, g.key, event, tableOf(w.cfg, table), pause))
	must(w.t, err)
	return g
}

// waiter waits until somebody stands before the gate, and returns the backend's process id.
func (g *gate) waiter() (pid int) {
	g.w.t.Helper()
	g.w.until("the first one stops before its commit", func() bool {
		err := g.conn.QueryRow(g.w.ctx, "SELECT coalesce(min(pid), 0) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted", g.key).Scan(&pid)
		must(g.w.t, err)
		return pid > 0
	})
	return pid
}

func (g *gate) open() {
	g.w.t.Helper()
	_, err := g.conn.Exec(g.w.ctx, "SELECT pg_advisory_unlock($1)", g.key)
	must(g.w.t, err)
}

// blockedOrDone waits until something waits for the backend pid, stands before the gate too,
// or done has a result, which stays in it.
func (g *gate) blockedOrDone(pid int, done chan error) {
	g.w.t.Helper()
	g.w.until("the second one waits or has ended", func() bool {
		var blocked bool
		row := g.conn.QueryRow(g.w.ctx, `
			SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))
			    OR (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $2 AND NOT granted) > 1`, pid, g.key)
		must(g.w.t, row.Scan(&blocked))
		return blocked || len(done) > 0
	})
}

func (w *keyWorld) until(what string, condition func() bool) {
	w.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			w.t.Fatalf("waited in vain: %s", what)
		}
	}
}
