//go:build unix

package soak

import (
	"context"
	"slices"
	"testing"

	"github.com/waybill-go/waybill/internal/loop"
)

// TestCluster_GaleraPartition cuts one of three nodes off from the other two, while clients and HAProxy still reach it. It
// commits nothing, the other two go on, and what it has said to be committed before is there in the end.
//
//test:cluster
func TestCluster_GaleraPartition(t *testing.T) {
	g := newGalera(t)
	r := g.system()
	w := newLocalClient(g)
	r.tellOf(slices.Repeat([]loss{{true, cutOff}, {false, cutOff}}, 10), w.watch)
	r.finish(t.Context())
	w.check()
	g.logTransfers()
}

// isolate cuts a node off from the group, or lets it come back. gmcast.isolate is Galera's own way to try that: the node
// drops its connections to the others, and makes and takes none. That is all of their communication, as what a node has missed
// it asks for in the group, too.
func (g *galera) isolate(n int, off bool) {
	g.t.Helper()
	setting := "gmcast.isolate=0"
	if off {
		setting = "gmcast.isolate=1"
	}
	_, err := g.each[n].ExecContext(g.t.Context(), "SET GLOBAL wsrep_provider_options = '"+setting+"'")
	must(g.t, err)
}

// localClient stays at a node, whatever becomes of it, commits rows there, and remembers the answers.
type localClient struct {
	g       *galera
	tried   int          // rows, which are numbered
	told    map[int]bool // those that are committed, as the node has said
	refused int          // how many are not
}

func newLocalClient(g *galera) *localClient {
	g.t.Helper()
	_, err := g.each[0].ExecContext(g.t.Context(), "CREATE TABLE soak.local_client (id INT PRIMARY KEY)")
	must(g.t, err)
	return &localClient{g: g, told: make(map[int]bool)}
}

// watch commits rows on a node until stop is called. One is committed when it returns.
func (w *localClient) watch(n int) (stop func()) {
	w.g.t.Helper()
	before := len(w.told)
	eventually(w.g.t, "the node commits a row", func() bool {
		w.commit(w.g.t.Context(), n)
		return len(w.told) > before
	})
	ctx, cancel := context.WithCancel(w.g.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ; ctx.Err() == nil; loop.Sleep(ctx, unanswered/100) {
			w.commit(ctx, n)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (w *localClient) commit(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, unanswered)
	defer cancel()
	w.tried++
	if _, err := w.g.each[n].ExecContext(ctx, "INSERT INTO soak.local_client VALUES (?)", w.tried); err != nil {
		w.refused++
	} else {
		w.told[w.tried] = true
	}
}

// check fails if a row is gone that was said to be committed, or if there is one on one node and not on another.
func (w *localClient) check() {
	t := w.g.t
	t.Helper()
	w.g.caughtUp()
	first := w.rows(0)
	for n := range w.g.nodes {
		if rows := w.rows(n); !slices.Equal(rows, first) {
			t.Errorf("node %d has %d rows of the local client, and the first one %d", n, len(rows), len(first))
		}
	}
	lost := len(w.told)
	for _, id := range first {
		if w.told[id] {
			lost--
		}
	}
	t.Logf("of %d rows that were to be committed on the nodes that were cut off %d were, and %d were not; %d of the former are lost", w.tried, len(w.told), w.refused, lost)
	if lost > 0 || w.refused == 0 || len(w.told) == 0 {
		t.Error("want rows that are committed, rows that are not, and none of the former lost")
	}
}

func (w *localClient) rows(n int) (ids []int) {
	w.g.t.Helper()
	rows, err := w.g.each[n].QueryContext(w.g.t.Context(), "SELECT id FROM soak.local_client ORDER BY id")
	must(w.g.t, err)
	defer rows.Close()
	for rows.Next() {
		var id int
		must(w.g.t, rows.Scan(&id))
		ids = append(ids, id)
	}
	must(w.g.t, rows.Err())
	return ids
}
