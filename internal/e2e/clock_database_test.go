package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/store/mysqlstore"
)

// newClockPostgres starts a PostgreSQL whose clock can be set, with a shop.
func newClockPostgres(t *testing.T, ahead time.Duration) (*clockShop, *ownserver.Clock) {
	t.Helper()
	port := ownserver.FreePorts(t, 1)[0]
	server := ownserver.NewPostgres(t, "", port, "fsync=off", "max_connections=200")
	server.InitPostgres()
	clock := server.Clock()
	clock.Ahead(ahead)
	server.Start()
	s := newClockShop(t, newWorldAt(t, ownserver.AwaitPostgres(t, port), session{}))
	s.lease = 6 * time.Second
	return s, clock
}

// startAll starts two processes of each role, and returns the relays. The second one's lease outlasts the story, unless
// the database's clock jumps.
func (s *clockShop) startAll(t *testing.T) (relays []*clockProcess) {
	t.Helper()
	for _, role := range []string{"producer", "consumer", "leased"} {
		s.start(t, clockSettings{Role: role})
		s.start(t, clockSettings{Role: role})
	}
	relays = append(relays, s.start(t, clockSettings{Role: "relay"}), s.start(t, clockSettings{Role: "relay", LeaseTTL: clockJump / 2}))
	eventually(t, "both relays have lanes", func() bool { return len(s.owners(t)) == 2 && s.owners(t)[""] == 0 })
	s.handlesMore(t)
	return relays
}

// later enqueues a message that is delayed, and schedules one, for half an hour later by the database's clock.
func (s *clockShop) later(t *testing.T) {
	t.Helper()
	scheduler, err := schedule.NewScheduler(s.store, schedule.Config{Source: "shop", Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	var due time.Time
	if err := s.pool.QueryRow(t.Context(), "SELECT clock_timestamp() + interval '30 minutes'").Scan(&due); err != nil {
		t.Fatal(err)
	}
	s.inTx(t, func(tx pgx.Tx) error {
		for _, id := range []string{"delayed", "scheduled"} {
			if _, err := tx.Exec(t.Context(), "INSERT INTO "+s.table("orders")+" VALUES ($1, $2)", id, due); err != nil {
				return err
			}
		}
		m := waybill.Message{ID: "scheduled", Topic: "orders"}
		if _, err := scheduler.After(t.Context(), tx, m, clockJump/2); err != nil {
			return err
		}
		m.ID, m.DeliverAt = "delayed", due
		_, err := s.writer.Enqueue(t.Context(), tx, m)
		return err
	})
}

// TestClock_Postgres sets the clock of the database forward by an hour, back, and lets it stand still, while all are at
// work. It decides: leases end and delayed messages come when it says so; and nobody waits for an hour for lanes of a
// relay that is gone, whatever it has written before. Each order has its effect once.
//
//test:clock
func TestClock_Postgres(t *testing.T) {
	s, clock := newClockPostgres(t, 0)
	relays := s.startAll(t)
	s.later(t)
	s.handlesMore(t)
	if n := s.effects(t, "billing", "delayed") + s.effects(t, "billing", "scheduled"); n != 0 {
		t.Errorf("%d of the messages for later have come at once, want none", n)
	}
	relays[1].stop(t)
	clock.Ahead(clockJump)
	eventually(t, "the lease of a relay that stands still has ended", func() bool { return s.lanesOf(t, relays[1]) == 0 })
	relays[1].resume(t)
	relays[1].works(t)
	eventually(t, "what was for later comes", func() bool {
		return s.effects(t, "billing", "delayed") == 1 && s.effects(t, "billing", "scheduled") == 1
	})
	s.handlesMore(t)

	clock.Ahead(0) // a relay dies with a lease that lasts an hour from now
	relays[0].kill()
	eventually(t, "the lanes of the relay that is gone are taken over", func() bool { return s.lanesOf(t, relays[0]) == 0 })
	s.handlesMore(t)

	clock.Stop(time.Now())
	s.handlesMore(t)
	stopping := s.start(t, clockSettings{Role: "relay"})
	stopping.works(t)
	clock.Ahead(clockJump) // what was delayed by a second before the clock went back comes now, too
	stopping.terminate(t)
	clock.Ahead(2 * clockJump)
	stopping.wait(t, "ended: <nil>")
	if n := s.lanesOf(t, stopping); n != 0 {
		t.Errorf("%d lanes are left to a relay that has stopped, want none", n)
	}
	s.start(t, clockSettings{Role: "relay"})
	s.finish(t)
}

func (s *clockShop) lanesOf(t *testing.T, p *clockProcess) int {
	t.Helper()
	return s.owners(t)[p.node]
}

// TestClock_PostgresAfter2038 is the same shop in the year 2040.
//
//test:clock
func TestClock_PostgresAfter2038(t *testing.T) {
	s, _ := newClockPostgres(t, time.Until(time.Date(2040, 2, 29, 12, 0, 0, 0, time.UTC)))
	s.startAll(t)
	s.handlesMore(t)
	s.finish(t)
	s.wantOnTime(t)
	if year := s.number(t, "SELECT min(extract(year FROM at))::int FROM "+s.table("effects")); year != 2040 {
		t.Errorf("the effects are of the year %d, want 2040", year)
	}
}

// TestClock_MariaDB sets the clock of the database forward by an hour and back: a relay that is gone, with a lease that
// lasts an hour from then on, keeps its lanes for one lease.
//
//test:clock
func TestClock_MariaDB(t *testing.T) {
	port := ownserver.FreePorts(t, 1)[0]
	server := ownserver.NewMariaDB(t, "", port, "--innodb-flush-log-at-trx-commit=0")
	server.InitMariaDB()
	clock := server.Clock()
	server.Start()
	db, err := sql.Open("mysql", "root@tcp(127.0.0.1:"+port+")/mysql")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	eventually(t, "the server answers", func() bool { return db.PingContext(t.Context()) == nil })
	store, err := mysqlstore.New(db, mysqlstore.Config{})
	if err == nil {
		_, err = store.Migrate(t.Context(), mysqlstore.MigrateOptions{LockWait: patience})
	}
	if err != nil {
		t.Fatal(err)
	}
	writer, err := outbox.NewWriter(store, outbox.Config{Source: "shop", Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	pub, sent := &recorder{}, 0
	send := func(what string) {
		t.Helper()
		for range 100 {
			sent++
			m := waybill.Message{ID: fmt.Sprint("m", sent), Topic: "orders", Key: fmt.Sprint("k", sent)}
			if _, err := writer.InTx(t.Context(), func(_ context.Context, _ *sql.Tx, rec *outbox.Recorder) error {
				rec.Record(m)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "all are published "+what, func() bool { return len(pub.ids()) == sent })
	}
	join := func(name string) contract.Lease {
		t.Helper()
		lease, err := store.RenewLanes(t.Context(), contract.LeaseRequest{Node: name, Join: true, TTL: 6 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	for range 2 {
		r, err := relay.New(store, pub, quick(relay.Config{LeaseTTL: 6 * time.Second}))
		if err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), r.Run)
	}
	send("before")
	clock.Ahead(clockJump)
	eventually(t, "a third relay gets lanes", func() bool { return len(join("gone").Lanes) > 0 })
	clock.Ahead(0)
	send("after the clock went back, those of the relay that is gone, too")
}
