//go:build unix

package soak

import (
	"context"
	"database/sql"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
)

// The ways to lose a node.
const (
	killed = "killed"
	paused = "paused"
	cutOff = "cut off" // from the other nodes, not from clients
)

// loss takes away the node that takes writes, or another one.
type loss struct {
	writer bool
	way    string
}

func (l loss) String() string {
	what := "another node"
	if l.writer {
		what = "writer"
	}
	return what + " " + l.way
}

// TestCluster_Galera takes one of three nodes of MariaDB Galera away at a time, as the stories of clusters in internal/e2e
// do. HAProxy leads everybody to one node.
//
//test:cluster
func TestCluster_Galera(t *testing.T) {
	g := newGalera(t)
	r := g.system()
	r.tellOf(slices.Repeat([]loss{{true, killed}, {true, paused}, {false, killed}, {false, paused}}, 5), func(int) func() { return func() {} })
	r.finish(t.Context())
	g.logTransfers()
}

// system starts a whole system on the cluster.
func (g *galera) system() *run {
	g.t.Helper()
	r := &run{system: &system{t: g.t, dir: g.t.TempDir(), galera: g}, log: log.New(g.t.Output(), "", log.Ltime|log.Lmicroseconds|log.LUTC)}
	r.begin(500)
	return r
}

// tellOf loses nodes and gets them back, in any order. Meanwhile others may look at the lost one, until they are
// stopped.
func (r *run) tellOf(list []loss, look func(n int) (stop func())) {
	r.t.Helper()
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, l := range list {
		r.goesOn()
		n := r.galera.choose(r.db, l.writer)
		stop := look(n)
		back := r.lose(n, l)
		r.interruptProcess()
		r.interruptProcess()
		r.goesOn()
		stop()
		back()
		r.galera.whole(len(r.galera.nodes))
	}
	r.goesOn()
	r.healAll()
}

// goesOn waits until orders are taken, and one of them has its effect, and ends meanwhile what has hurt processes for long
// enough.
func (r *run) goesOn() {
	r.t.Helper()
	before, _, err := ledger{r.db}.patientTotals(r.t.Context())
	must(r.t, err)
	eventually(r.t, "orders are taken and have their effects", func() bool {
		r.heal(time.Now())
		_, effects, err := ledger{r.db}.totals(r.t.Context())
		return err == nil && effects > before
	})
}

// choose returns the node that takes writes, or another one.
func (g *galera) choose(proxied *sql.DB, writer bool) (n int) {
	g.t.Helper()
	n = g.writer(proxied)
	if !writer {
		n = (n + 1 + rand.IntN(len(g.nodes)-1)) % len(g.nodes)
	}
	return n
}

// lose takes a node away.
func (r *run) lose(n int, l loss) (back func()) {
	r.t.Helper()
	r.log.Print(l)
	r.state.Interruptions[l.String()]++
	g := r.galera
	switch l.way {
	case killed:
		g.nodes[n].Kill()
	case paused:
		g.nodes[n].Pause()
	case cutOff:
		g.isolate(n, true)
		eventually(r.t, "a node without the others is out of step", func() bool { return g.size(r.t.Context(), n) == 0 })
		return func() { g.isolate(n, false) }
	}
	return g.nodes[n].Back
}

// galera is a cluster of MariaDB.
type galera struct {
	t     *testing.T
	ports []string
	nodes []*ownserver.Server
	each  []*sql.DB // of each node
}

func newGalera(t *testing.T) *galera {
	t.Helper()
	must(t, mysql.SetLogger(log.New(io.Discard, "", 0))) // there is trouble all the time
	g := &galera{t: t, ports: ownserver.FreePorts(t, 3)}
	g.nodes = ownserver.NewGalera(t, g.ports)
	for _, port := range g.ports {
		db, err := sql.Open("mysql", "root@tcp(127.0.0.1:"+port+")/")
		must(t, err)
		t.Cleanup(func() { db.Close() })
		g.each = append(g.each, db)
	}
	return g
}

// start starts the nodes, and returns when each is in step with the others.
func (g *galera) start() {
	g.t.Helper()
	for n, node := range g.nodes {
		node.Start()
		g.whole(n + 1)
	}
	_, err := g.each[0].ExecContext(g.t.Context(), "CREATE DATABASE soak")
	must(g.t, err)
}

// whole waits until size nodes are in step with each other.
func (g *galera) whole(size int) {
	g.t.Helper()
	eventually(g.t, "the cluster is whole", func() bool {
		for n := range size {
			if g.size(g.t.Context(), n) != size {
				return false
			}
		}
		return true
	})
}

// size returns how many nodes there are in a node's cluster; 0 if it does not answer, is alone or not in step.
func (g *galera) size(ctx context.Context, n int) (size int) {
	ctx, cancel := context.WithTimeout(ctx, unanswered)
	defer cancel()
	err := g.each[n].QueryRowContext(ctx, `
SELECT size.variable_value FROM information_schema.global_status state, information_schema.global_status size
 WHERE state.variable_name = 'WSREP_LOCAL_STATE_COMMENT' AND state.variable_value = 'Synced' AND size.variable_name = 'WSREP_CLUSTER_SIZE'`).Scan(&size)
	if err != nil {
		return 0
	}
	return size
}

// proxy returns an HAProxy that leads to one node. It is not started yet.
func (g *galera) proxy(port string) *ownserver.Server {
	g.t.Helper()
	var checks []string
	for n := range g.nodes {
		check := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if g.size(r.Context(), n) == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		g.t.Cleanup(check.Close)
		address, err := url.Parse(check.URL)
		must(g.t, err)
		checks = append(checks, address.Port())
	}
	return ownserver.NewHAProxy(g.t, port, g.ports, checks)
}

// writer returns the node that the proxy leads to.
func (g *galera) writer(proxied *sql.DB) int {
	g.t.Helper()
	var port string
	eventually(g.t, "a node answers", func() bool {
		ctx, cancel := context.WithTimeout(g.t.Context(), unanswered)
		defer cancel()
		return proxied.QueryRowContext(ctx, "SELECT @@port").Scan(&port) == nil
	})
	return slices.Index(g.ports, port)
}

// logTransfers says how often nodes got what they had missed, and how often a copy of everything.
func (g *galera) logTransfers() {
	g.t.Helper()
	var ist, sst int
	for _, n := range g.nodes {
		text, err := os.ReadFile(filepath.Join(n.Dir, "log"))
		must(g.t, err)
		ist += strings.Count(string(text), "IST received: ")
		sst += strings.Count(string(text), "SST succeeded for position ")
	}
	g.t.Logf("nodes got what they had missed %d times, and a copy of everything %d times, twice at the start", ist, sst)
}

// eventually waits until condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); loop.Sleep(t.Context(), 50*time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
