package e2e

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
)

// TestCluster_Postgres kills the primary, promotes its standby, and makes the old primary the new standby, again and again.
// Commits wait for the standby: nothing is lost.
//
//test:cluster
func TestCluster_Postgres(t *testing.T) {
	p := newPostgresPair(t, "*")
	c := cluster{hurt: func(*rand.Rand) string { p.failOver(); return "failover" }, mend: p.mend, waits: true}
	c.tellOf(t, newWorldAt(t, p.url(), session{}), newBroker(t, "rabbit"))
}

// TestCluster_PostgresAsynchronous does the same with a standby that has not received the last commits. What was lost is as
// docs/guarantees.md says: orders are lost together with their messages, effects together with their inbox records.
//
//test:cluster
func TestCluster_PostgresAsynchronous(t *testing.T) {
	p := newPostgresPair(t, "")
	w, b := newWorldAt(t, p.url(), session{}), newBroker(t, "rabbit")
	c := cluster{mend: p.mend, hurt: func(*rand.Rand) string {
		p.nodes[1-p.primary].Pause()
		w.goesOn(t, 1)
		p.failOver()
		return "failover"
	}}
	w.checkLosses(t, c.run(t, w, b), b)
}

// checkLosses waits until nothing is in flight and counts what is missing, which must be something.
func (w *world) checkLosses(t *testing.T, s *soak, b brokerSettings) {
	t.Helper()
	orders, effects, messages := w.table("orders"), w.table("effects"), w.table("messages")
	last, same := -1, 0
	within(t, 6*patience, "every message is published, and none is in flight", func() bool {
		if w.number(t, "SELECT count(*) FROM "+messages+" WHERE status <> 'Published'") > 0 || b.stored(t, "billing") > 0 {
			return false
		}
		now := w.number(t, "SELECT count(*) FROM "+effects)
		if same++; now != last {
			last, same = now, 0
		}
		return same == 500
	})
	s.killAll()
	committed := w.number(t, "SELECT count(*) FROM "+orders)
	w.everyIDOnce(t, committed)
	if n := w.number(t, "SELECT count(*) FROM (SELECT 1 FROM "+effects+" GROUP BY message_id HAVING count(*) > 1) d"); n != 0 {
		t.Errorf("%d effects came twice, want none", n)
	}
	without := w.number(t, "SELECT count(*) FROM "+orders+" o WHERE NOT EXISTS (SELECT 1 FROM "+effects+" e WHERE e.message_id = o.id)")
	ofNone := w.number(t, "SELECT count(*) FROM "+effects+" e WHERE NOT EXISTS (SELECT 1 FROM "+orders+" o WHERE o.id = e.message_id)")
	t.Logf("%d orders, %d without their effect, %d effects of orders that are gone, interruptions: %v", committed, without, ofNone, s.done)
	if without+ofNone == 0 {
		t.Error("nothing was lost: the story shows nothing")
	}
}

// postgresPair is a primary and its standby.
type postgresPair struct {
	t       *testing.T
	ports   []string
	nodes   []*ownserver.Server
	ways    []*faultproxy.Proxy // by which the other one copies each
	primary int
}

// newPostgresPair starts a pair; names are the synchronous_standby_names of whoever is the primary.
func newPostgresPair(t *testing.T, names string) *postgresPair {
	t.Helper()
	p := &postgresPair{t: t, ports: ownserver.FreePorts(t, 2)}
	for _, port := range p.ports {
		p.nodes = append(p.nodes, ownserver.NewPostgres(t, "", port, "synchronous_standby_names="+names, "wal_keep_size=1GB"))
		p.ways = append(p.ways, newProxy(t, "127.0.0.1:"+port))
	}
	first := p.nodes[0]
	first.InitPostgres()
	first.Start()
	p.mend()
	return p
}

// url leads to whichever of the two takes writes.
func (p *postgresPair) url() string {
	return "postgres://postgres@" + eachPort("127.0.0.1:%s", p.ports) + "/postgres?sslmode=disable&target_session_attrs=read-write&connect_timeout=5"
}

func (p *postgresPair) failOver() {
	p.t.Helper()
	p.nodes[p.primary].Kill()
	p.promote()
}

// promote makes the standby a primary, whatever the other one is.
func (p *postgresPair) promote() {
	p.t.Helper()
	p.primary = 1 - p.primary
	next := p.nodes[p.primary]
	next.Back()
	next.Run(ownserver.PostgresProgram(p.t, "pg_ctl"), "promote", "-w", "-D", filepath.Join(next.Dir, "data"))
}

// mend makes the other one a standby with a new copy, and returns when it has caught up.
func (p *postgresPair) mend() {
	p.t.Helper()
	other := p.nodes[1-p.primary]
	data := filepath.Join(other.Dir, "data")
	if err := os.RemoveAll(data); err != nil {
		p.t.Fatal(err)
	}
	eventually(p.t, "the primary answers", func() bool { return p.streaming() >= 0 })
	other.Run(ownserver.PostgresProgram(p.t, "pg_basebackup"), "-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", "postgres://postgres@"+p.ways[p.primary].Addr()+"/postgres?sslmode=disable")
	other.Start()
	p.caughtUp()
}

// caughtUp returns when the standby has all that the primary has written.
func (p *postgresPair) caughtUp() {
	p.t.Helper()
	eventually(p.t, "the standby has caught up", func() bool { return p.streaming() == 1 })
}

// streaming returns how many standbys have all that the primary has written; -1 if it does not answer.
func (p *postgresPair) streaming() (n int) {
	if err := p.query(p.primary, &n, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"); err != nil {
		return -1
	}
	return n
}

// query reads a value from one of the two.
func (p *postgresPair) query(node int, value any, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), unreached)
	defer cancel()
	conn, err := pgx.Connect(ctx, "postgres://postgres@127.0.0.1:"+p.ports[node]+"/postgres?sslmode=disable")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.QueryRow(ctx, sql).Scan(value)
}
