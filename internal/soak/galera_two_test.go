//go:build unix

package soak

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/mysqlstore"
)

// node is what a client has of one node, without a proxy.
type node struct {
	db     *sql.DB
	store  opener.SQLStore
	writer *outbox.Writer[*sql.Tx]
}

// client opens a node with parameters of the driver.
func (g *galera) client(n int, parameters string) node {
	g.t.Helper()
	db, store, err := openStore(g.t.Context(), "mysql://root@127.0.0.1:"+g.ports[n]+"/soak?"+parameters)
	must(g.t, err)
	g.t.Cleanup(func() { db.Close() })
	w, err := outbox.NewWriter(store, outbox.Config{Source: "soak"})
	must(g.t, err)
	return node{db, store, w}
}

// enqueue commits messages of one key.
func (n node) enqueue(t *testing.T, ids ...string) {
	t.Helper()
	_, err := n.writer.InTx(t.Context(), func(_ context.Context, _ *sql.Tx, rec *outbox.Recorder) error {
		for _, id := range ids {
			rec.Record(waybill.Message{ID: id, Topic: "orders", Key: "k", Payload: []byte(`{}`)})
		}
		return nil
	})
	must(t, err)
}

func (n node) number(t *testing.T, query string, args ...any) (value int) {
	t.Helper()
	must(t, n.db.QueryRowContext(t.Context(), query, args...).Scan(&value))
	return value
}

// startGalera starts a cluster without a proxy, with the tables of a store.
func startGalera(t *testing.T) *galera {
	t.Helper()
	g := newGalera(t)
	g.start()
	_, err := g.client(0, "").store.Migrate(t.Context(), "soak", 0)
	must(t, err)
	return g
}

// lag gives the other nodes seconds of work, behind which what is committed next waits.
func (g *galera) lag() {
	g.t.Helper()
	for _, statement := range []string{"TRUNCATE soak.work", "INSERT INTO soak.work SELECT seq, REPEAT('x', 100) FROM soak.seq_1_to_200000"} {
		_, err := g.each[0].ExecContext(g.t.Context(), statement)
		must(g.t, err)
	}
}

// TestCluster_GaleraTwoWriters moves from one node to another that has not caught up. With wsrep_sync_wait = 1 what
// follows a commit has a later position, and a relay that has lost its lanes settles nothing. Without it both fail, and a
// message that both nodes handle still has its effect once.
//
//test:cluster
func TestCluster_GaleraTwoWriters(t *testing.T) {
	g := startGalera(t)
	first := g.client(0, "")
	for _, table := range []string{"work (n INT PRIMARY KEY, t VARCHAR(100))", "work_done (number BIGINT AUTO_INCREMENT PRIMARY KEY, id VARCHAR(50))"} {
		_, err := first.db.ExecContext(t.Context(), "CREATE TABLE "+table)
		must(t, err)
	}
	for i, waits := range []bool{false, true} {
		second, id := g.client(1, fmt.Sprintf("wsrep_sync_wait=%d", i)), fmt.Sprint("late", i)
		if behind := g.enqueueOnBoth(first, second, id); behind != waits {
			t.Errorf("with wsrep_sync_wait = %d a message is behind those that were committed on another node: %v, want %v", i, behind, waits)
		}
		if lost := g.settleOnBoth(first, second); lost != waits {
			t.Errorf("with wsrep_sync_wait = %d a relay finds that it has lost its lanes on another node: %v, want %v", i, lost, waits)
		}
		if conflicts := g.handleOnBoth(first, second, id); (conflicts == 0) != waits {
			t.Errorf("with wsrep_sync_wait = %d another node found %d times at COMMIT that a message was handled", i, conflicts)
		}
		if n := first.number(t, "SELECT COUNT(*) FROM work_done WHERE id = ?", id); n != 1 {
			t.Errorf("with wsrep_sync_wait = %d a message that two nodes handled has %d effects, want 1", i, n)
		}
	}
}

// enqueueOnBoth commits messages on one node and then another one, id, on the other. It reports whether that is behind
// them.
func (g *galera) enqueueOnBoth(first, second node, id string) (behind bool) {
	g.t.Helper()
	g.lag()
	before := "before " + id
	first.enqueue(g.t, before+" 1", before+" 2", before+" 3", before+" 4")
	second.enqueue(g.t, id)
	g.caughtUp()
	const position = "SELECT MAX(position) FROM waybill_outbox WHERE id LIKE ?"
	return first.number(g.t, position, id) > first.number(g.t, position, before+"%")
}

// settleOnBoth gives the lanes of a relay to another one on one node, and lets the former settle a message on the other.
// It reports whether that one learns of it.
func (g *galera) settleOnBoth(first, second node) (lost bool) {
	t := g.t
	t.Helper()
	old := first.join(t, "old")
	claims, err := first.store.ClaimMessages(t.Context(), contract.ClaimRequest{Lanes: old.Lanes, Limit: 1, Bytes: 1 << 20})
	must(t, err)
	if len(claims) != 1 {
		t.Fatalf("%d claims, want 1", len(claims))
	}
	g.caughtUp()
	g.lag()
	must(t, first.store.LeaveLanes(t.Context(), "old"))
	first.join(t, "new")
	missed, err := second.store.SettleMessages(t.Context(), contract.SettleRequest{Node: "old", Settlements: []contract.Settlement{{Claim: &claims[0], Outcome: contract.Published}}})
	must(t, err)
	g.caughtUp()
	gone := first.number(t, "SELECT COUNT(*) FROM waybill_outbox WHERE position = ?", claims[0].Position) == 0
	if lost = len(missed) == 1; lost == gone {
		t.Errorf("a relay was notified that it has lost its lanes: %v; its settlement is in force: %v", lost, gone)
	}
	must(t, first.store.LeaveLanes(t.Context(), "new"))
	return lost
}

// join gives a relay all lanes.
func (n node) join(t *testing.T, name string) contract.Lease {
	t.Helper()
	lease, err := n.store.RenewLanes(t.Context(), contract.LeaseRequest{Node: name, Join: true, TTL: time.Hour})
	must(t, err)
	if len(lease.Lanes) != lease.Total {
		t.Fatalf("%s has %d lanes, want %d", name, len(lease.Lanes), lease.Total)
	}
	return lease
}

// caughtUp waits until every node has applied what is committed.
func (g *galera) caughtUp() {
	g.t.Helper()
	for n := range g.nodes {
		db := g.client(n, "wsrep_sync_wait=1").db
		eventually(g.t, "a node has caught up", func() bool {
			var one int
			return db.QueryRowContext(g.t.Context(), "SELECT 1 FROM waybill_locks LIMIT 1").Scan(&one) == nil
		})
	}
}

// handleOnBoth handles a message on one node and then, as after a redelivery, on the other. It returns how often the
// other one found at COMMIT only that it was handled.
func (g *galera) handleOnBoth(first, second node, id string) (conflicts int) {
	t := g.t
	t.Helper()
	g.lag()
	m := waybill.Message{ID: id, Topic: "orders", Source: "soak", Payload: []byte(`{}`)}
	m.Complete()
	for i, n := range []node{first, second} {
		var outcome inbox.Outcome
		var err error
		eventually(t, "the message is handled", func() bool {
			outcome, err = n.store.ProcessOnce(t.Context(), inbox.RecordOf("billing", &m), func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO work_done (id) VALUES (?)", id)
				return err
			})
			if waybill.IsConflict(err) {
				conflicts++
			} else if err != nil {
				t.Fatalf("ProcessOnce() = %v, want nil or a conflict", err)
			}
			return err == nil
		})
		if want := []inbox.Outcome{inbox.Processed, inbox.Duplicate}[i]; outcome != want {
			t.Errorf("ProcessOnce() = %v, want %v", outcome, want)
		}
	}
	g.caughtUp()
	return conflicts
}

// TestCluster_GaleraAlone takes all other nodes away: what is left refuses everything, which is an outage to whoever asks,
// and no attempt of a handler; it goes on when they are back.
//
//test:cluster
func TestCluster_GaleraAlone(t *testing.T) {
	g := startGalera(t)
	alone, err := sql.Open("mysql", "root@tcp(127.0.0.1:"+g.ports[0]+")/soak")
	must(t, err)
	t.Cleanup(func() { alone.Close() })
	store, err := mysqlstore.New(alone, mysqlstore.Config{})
	must(t, err)
	m := waybill.Message{ID: "m", Topic: "orders", Source: "soak", Payload: []byte(`{}`)}
	m.Complete()
	calls := map[string]func(ctx context.Context) error{
		"Ping": store.Ping,
		"RenewLanes": func(ctx context.Context) error {
			_, err := store.RenewLanes(ctx, contract.LeaseRequest{Node: "r", Join: true, TTL: time.Hour})
			return err
		},
		"ProcessOnce": func(ctx context.Context) error {
			_, err := store.ProcessOnce(ctx, inbox.RecordOf("billing", &m), func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "SELECT COUNT(*) FROM waybill_outbox")
				return err
			})
			return err
		},
	}
	committing := m
	committing.ID = "committing"
	_, err = store.ProcessOnce(t.Context(), inbox.RecordOf("billing", &committing), func(context.Context, *sql.Tx) error {
		g.nodes[1].Pause()
		g.nodes[2].Pause()
		return nil
	})
	if !waybill.IsUnavailable(err) {
		t.Errorf("ProcessOnce(), whose COMMIT waits for the others, = %v of kind %v, want unavailable", err, waybill.KindOf(err))
	}
	eventually(t, "a node without the others is out of step", func() bool { return g.size(t.Context(), 0) == 0 })
	for name, call := range calls {
		if err := call(t.Context()); !waybill.IsUnavailable(err) {
			t.Errorf("%s() = %v of kind %v, want unavailable", name, err, waybill.KindOf(err))
		}
	}
	g.nodes[1].Back()
	g.nodes[2].Back()
	g.whole(3)
	for name, call := range calls {
		if err := call(t.Context()); err != nil {
			t.Errorf("%s() = %v, want nil", name, err)
		}
	}
}

// TestCluster_GaleraCommitWaits pauses the node that a settlement commits on while the commit waits for another one. The
// settlement is in force afterwards or not, as a whole, and is there if it was said to be; repeated on another node
// it takes effect once.
//
//test:cluster
func TestCluster_GaleraCommitWaits(t *testing.T) {
	g := startGalera(t)
	for n := range g.nodes { // none is taken for lost before the next one is paused
		_, err := g.each[n].ExecContext(t.Context(), "SET GLOBAL wsrep_provider_options = 'evs.suspect_timeout=PT15S'")
		must(t, err)
	}
	inForce := 0
	for i := range 4 {
		inForce += g.loseCommit(fmt.Sprint("m", i), i%2 == 0)
	}
	t.Logf("of 4 settlements whose node was lost during COMMIT %d were in force", inForce)
}

// loseCommit settles one message and takes the node away, when the commit waits or before. It returns 1 if the
// settlement was in force when its node was gone.
func (g *galera) loseCommit(id string, waits bool) (inForce int) {
	t := g.t
	t.Helper()
	g.whole(3)
	a, b := g.client(0, "wsrep_sync_wait=1"), g.client(1, "wsrep_sync_wait=1")
	a.enqueue(t, id)
	claims, err := a.store.ClaimMessages(t.Context(), contract.ClaimRequest{Lanes: a.join(t, "r").Lanes, Limit: 10, Bytes: 1 << 20})
	must(t, err)
	if len(claims) != 1 || claims[0].Message.ID != id {
		t.Fatalf("%d claims, want that of %s", len(claims), id)
	}
	req := contract.SettleRequest{Node: "r", Archive: true, Settlements: []contract.Settlement{{Claim: &claims[0], Outcome: contract.Published}}}
	g.nodes[2].Pause() // each commit waits for it now
	answer := make(chan error, 1)
	go func() {
		_, err := a.store.SettleMessages(t.Context(), req)
		answer <- err
	}()
	eventually(t, "the commit waits", func() bool {
		var n int
		err := g.each[0].QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'COMMIT'").Scan(&n)
		return !waits || err == nil && n == 1
	})
	g.nodes[0].Pause()
	g.nodes[2].Back()
	eventually(t, "the others have a cluster of their own", func() bool { return g.size(t.Context(), 1) == 2 && g.size(t.Context(), 2) == 2 })
	const archived = "SELECT COUNT(*) FROM waybill_outbox_archive WHERE id = ?"
	inForce = b.number(t, archived, id)
	lost, err := b.store.SettleMessages(t.Context(), req)
	if err != nil || len(lost) > 0 {
		t.Errorf("SettleMessages() on another node = %v, %v", lost, err)
	}
	g.nodes[0].Back()
	switch err := <-answer; {
	case err == nil && inForce == 0:
		t.Error("the commit was said to be done, and was not there when its node was gone")
	case err != nil && !waybill.IsUnavailable(err) && !waybill.IsConflict(err):
		t.Errorf("SettleMessages() on the lost node = %v of kind %v, want unavailable or a conflict", err, waybill.KindOf(err))
	}
	if rows := b.number(t, archived, id); rows != 1 {
		t.Errorf("%s is in the archive %d times, want 1", id, rows)
	}
	if rows := b.number(t, "SELECT COUNT(*) FROM waybill_outbox WHERE id = ?", id); rows != 0 {
		t.Errorf("%s is still in the outbox", id)
	}
	return inForce
}
