package e2e

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
)

// TestCluster_PostgresPartition cuts the primary off from its standby, while clients reach both: connections between the two are
// ended and refused, or stay open and silent. Commits wait. Then the two meet again; or the standby is promoted while the
// old primary still runs and has its clients. What these commit waits there, and never counts: the old one becomes
// the standby, and nothing is lost whose commit anybody had confirmed.
//
//test:cluster
func TestCluster_PostgresPartition(t *testing.T) {
	p := postgresPartition{postgresPair: newPostgresPair(t, "*")}
	p.w = newWorldAt(t, p.url(), session{})
	cluster{waits: true, hurt: p.hurt, mend: p.mend}.tellOf(t, p.w, newBroker(t, "rabbit"))
}

// postgresPartition is a pair whose primary is cut off from its standby, in four ways that take turns.
type postgresPartition struct {
	*postgresPair
	w     *world
	round int
	old   int // the one that was the primary when it was cut off
	taken int // orders that can be seen there
}

func (p *postgresPartition) hurt(*rand.Rand) (what string) {
	p.t.Helper()
	p.old = p.primary
	way := p.ways[p.old]
	if p.round%2 == 0 {
		what = "cut off"
		way.Refuse(true)
		way.Cut()
	} else {
		what = "silent"
		way.Stall(true)
	}
	p.commitsWait()
	p.taken = p.seen()
	if p.round/2%2 == 0 {
		what += ", standby promoted"
		p.promote()
	}
	p.round++
	return what
}

// mend ends the cut. By then nothing more can be seen on the old primary.
func (p *postgresPartition) mend() {
	p.t.Helper()
	if n := len(p.waiting()); n < 2 {
		p.t.Errorf("%d orders wait for the standby, want 2 or more", n)
	}
	if n := p.seen(); n != p.taken {
		p.t.Errorf("%d orders can be seen on a primary without its standby, want the %d that were there", n, p.taken)
	}
	if p.old != p.primary {
		p.nodes[p.old].Kill()
	}
	way := p.ways[p.old]
	way.Refuse(false)
	way.Stall(false)
	if p.old != p.primary {
		p.postgresPair.mend()
	}
	p.caughtUp()
}

// commitsWait returns when the transactions of both producers stand still.
func (p *postgresPartition) commitsWait() {
	p.t.Helper()
	var last []string
	looks := 0
	eventually(p.t, "both producers wait", func() bool {
		now := p.waiting()
		if looks++; len(now) != 2 || !slices.Equal(now, last) {
			looks = 0
		}
		last = now
		return looks == 20
	})
}

// waiting returns the transactions with an order that are at their COMMIT: one waits for the standby, and the others until it
// has told the relays.
func (p *postgresPartition) waiting() []string {
	p.t.Helper()
	return ask[[]string](p, `SELECT coalesce(array_agg(DISTINCT backend_xid::text), '{}') FROM pg_stat_activity JOIN pg_locks USING (pid)
 WHERE wait_event IN ('SyncRep', 'object') AND relation = '`+p.w.table("orders")+`'::regclass`)
}

// seen returns how many orders can be seen on the old primary.
func (p *postgresPartition) seen() int {
	p.t.Helper()
	return ask[int](p, "SELECT count(*) FROM "+p.w.table("orders"))
}

// ask queries a value on the old primary.
func ask[T any](p *postgresPartition, sql string) (v T) {
	p.t.Helper()
	if err := p.query(p.old, &v, sql); err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// TestCluster_PostgresClients cuts producers, relays and consumers off from the database, each on their own: one of two processes, whose
// work the other one does, and then both. Their connections are cut, or cut and refused, or old and new ones are open and
// silent.
//
//test:cluster
func TestCluster_PostgresClients(t *testing.T) {
	w, b := plainWorld(t), newBroker(t, "rabbit")
	b.subscribe(t, b.connect(t), "billing", "orders")
	s := newSoak(t, w, b, true)
	roles, ways := []string{"producer", "replica", "billing"}, []string{"silent", "away", "cut"}
	for round := range clusterRounds {
		w.goesOn(t, 1)
		role, way := roles[round%len(roles)], ways[round/len(roles)%len(ways)]
		s.done["database "+way+" for "+role]++
		for n, p := range s.of(role) {
			s.cutOff(p, way)
			if n == 0 {
				w.goesOn(t, 1)
			} else if role != "producer" {
				w.takesMore(t)
			}
		}
		s.interrupt(t)
		s.recoverAll(t)
	}
	w.goesOn(t, 1)
	s.finish(t)
	w.checkSoak(t, s)
}

// of returns the processes of a role.
func (s *soak) of(role string) (list []*soakPart) {
	for _, p := range s.parts {
		if p.settings.Role == role {
			list = append(list, p)
		}
	}
	return list
}

// cutOff takes the database away from a process.
func (s *soak) cutOff(p *soakPart, way string) {
	switch way {
	case "silent":
		p.silence(p.db)
	case "away":
		p.refuse(p.db)
	default:
		p.db.Cut()
	}
}

// TestCluster_PostgresCommitCutShort ends a consumer's wait for the standby, as its StoreTimeout does: the COMMIT is in force on
// the primary. A copy that comes next waits, too, before it is skipped and so acknowledged; and when the standby is promoted, the
// effect being gone, it is handled.
//
//test:cluster
func TestCluster_PostgresCommitCutShort(t *testing.T) {
	p := postgresPartition{postgresPair: newPostgresPair(t, "*")}
	p.w = newWorldAt(t, p.url(), session{})
	p.ways[0].Refuse(true)
	p.ways[0].Cut()
	p.cutShort("the first one")
	eventually(t, "the effect can be seen on the primary", func() bool {
		return ask[int](&p, "SELECT count(*) FROM "+p.w.table("effects")) == 1
	})
	p.cutShort("a copy")
	p.cutShort("another copy, which is looked for first")
	p.promote()
	p.nodes[0].Kill()
	p.postgresPair.mend()
	p.w.pool.Reset()
	for _, want := range []inbox.Outcome{inbox.Processed, inbox.Duplicate} {
		if outcome, err := p.handle(t.Context()); outcome != want || err != nil {
			t.Errorf("ProcessOnce() on the new primary = %v, %v, want %v", outcome, err, want)
		}
	}
}

// cutShort handles the message until its transaction waits for the standby, and ends that wait.
func (p *postgresPartition) cutShort(what string) {
	p.t.Helper()
	ctx, end := context.WithCancel(p.t.Context())
	defer end()
	answer := make(chan error, 1)
	go func() {
		_, err := p.handle(ctx)
		answer <- err
	}()
	wait := func() int { return ask[int](p, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") }
	eventually(p.t, what+" waits", func() bool { return wait() == 1 })
	end()
	if err := <-answer; err == nil {
		p.t.Errorf("ProcessOnce() of %s = nil while there is no standby, want an error", what)
	}
	eventually(p.t, what+" waits no longer", func() bool { return wait() == 0 })
}

// handle writes the effect of a message.
func (p *postgresPartition) handle(ctx context.Context) (inbox.Outcome, error) {
	m := waybill.Message{ID: "m", Topic: "orders", Source: "shop", Payload: []byte(`{}`)}
	m.Complete()
	return p.w.store.ProcessOnce(ctx, inbox.RecordOf("billing", &m), func(ctx context.Context, tx pgx.Tx) error {
		return p.w.addEffect(ctx, tx, "billing", m.ID)
	})
}
