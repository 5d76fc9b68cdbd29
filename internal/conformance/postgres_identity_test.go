package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestPostgres_PositionDrawnAgain settles a message that the server has lost, in a crash without its
// latest commits, say, when its position is another one's. That one stays.
func TestPostgres_PositionDrawnAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newOldSchema(t)
	store, p := s.store, s.p
	_, err := store.Migrate(ctx, pgstore.MigrateOptions{LockWait: patience})
	must(t, err)
	lease, err := store.RenewLanes(ctx, contract.LeaseRequest{Node: "r1", Join: true, TTL: time.Hour})
	must(t, err)
	for name, st := range map[string]contract.Settlement{
		"published":           {Outcome: contract.Published},
		"published, followed": {Outcome: contract.Published, Destinations: []string{"y"}},
		"failed":              {Outcome: contract.Wait, Attempts: 1, Error: "no"},
		"dead":                {Outcome: contract.Dead, Reason: waybill.ReasonRejected, Error: "never"},
	} {
		for _, archive := range []bool{false, true} {
			enqueueAs(t, store, waybill.Message{ID: "lost", Topic: "orders", Key: "k", Source: "shop"})
			claims, err := store.ClaimMessages(ctx, contract.ClaimRequest{Lanes: lease.Lanes, Limit: 10, Due: true})
			must(t, err)
			if len(claims) != 1 || claims[0].Message.ID != "lost" {
				t.Fatalf("%s: claims = %+v, want the message lost", name, claims)
			}
			_, err = p.pool.Exec(ctx, "UPDATE "+tableOf(s.cfg, "outbox")+" SET id = 'found' WHERE id = 'lost'")
			must(t, err)
			st.Claim = &claims[0]
			lost, err := store.SettleMessages(ctx, contract.SettleRequest{Node: "r1", Archive: archive, Settlements: []contract.Settlement{st}})
			if err != nil || len(lost) > 0 {
				t.Fatalf("%s: SettleMessages() = %v, %v", name, lost, err)
			}
			states, err := store.MessageStates(ctx, "found")
			must(t, err)
			if len(states) != 1 || states[0].Status != "Pending" {
				t.Errorf("%s, archive %v: the message that has the position now is %+v, want it pending", name, archive, states)
			}
			_, err = p.pool.Exec(ctx, "DELETE FROM "+tableOf(s.cfg, "outbox"))
			must(t, err)
		}
	}
}

func enqueueAs(t *testing.T, store *pgstore.Store[pgx.Tx], m waybill.Message) {
	t.Helper()
	m.Complete()
	isNew, err := store.Transact(t.Context(), func(context.Context, pgx.Tx) (outbox.Batch, error) {
		return outbox.Batch{Messages: []waybill.Message{m}}, nil
	})
	if err != nil || !isNew[0] {
		t.Fatalf("Transact() = %v, %v", isNew, err)
	}
}

// TestPostgres_IdentitiesOneByOne: until step 17 of the schema, an id of another source is refused, not
// dropped; ids that were noted before the first count for every source and tenant; and step 17 waits for
// the relays of earlier versions.
func TestPostgres_IdentitiesOneByOne(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := newOldSchema(t)
	exec := func(stmt string) {
		t.Helper()
		_, err := s.p.pool.Exec(ctx, stmt)
		must(t, err)
	}
	exec("INSERT INTO " + tableOf(s.cfg, "outbox_ids") + " (id) VALUES ('noted')")
	exec("INSERT INTO " + tableOf(s.cfg, "relays") + " (node, started_at, expires_at) VALUES ('old', now(), now() + interval '1 hour')")
	migrate := func(want int) {
		t.Helper()
		if version, err := s.store.Migrate(ctx, pgstore.MigrateOptions{LockWait: patience, Source: "it's"}); err != nil || version != want {
			t.Fatalf("Migrate() = %d, %v, want %d", version, err, want)
		}
	}
	fresh := waybill.Message{Topic: "orders"}
	fresh.Complete()
	_, err := s.store.Transact(ctx, func(context.Context, pgx.Tx) (outbox.Batch, error) {
		return outbox.Batch{Messages: []waybill.Message{fresh}, Fresh: true}, nil
	})
	if err == nil || !strings.Contains(err.Error(), "waybill migrate") {
		t.Errorf("Transact() with an old schema = %v, want that it names waybill migrate", err)
	}
	migrate(16)
	enqueueAs(t, s.store, waybill.Message{ID: "a", Topic: "orders", Source: "shop"})
	m := waybill.Message{ID: "a", Topic: "orders", Source: "till"}
	m.Complete()
	_, err = s.store.Transact(ctx, func(context.Context, pgx.Tx) (outbox.Batch, error) {
		return outbox.Batch{Messages: []waybill.Message{m}}, nil
	})
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "23505" {
		t.Errorf("Transact() of the same id of another source = %v, want a unique violation", err)
	}
	exec("UPDATE " + tableOf(s.cfg, "relays") + " SET expires_at = now() - interval '1 second'")
	all := s.store.Migrations()
	newest := all[len(all)-1].Version
	migrate(newest)
	migrate(newest)
	enqueueAs(t, s.store, m)
	for _, id := range []string{"noted", "new"} {
		m := waybill.Message{ID: id, Topic: "orders", Source: "till"}
		m.Complete()
		isNew, err := s.store.Transact(ctx, func(context.Context, pgx.Tx) (outbox.Batch, error) {
			return outbox.Batch{Messages: []waybill.Message{m}, Remember: true}, nil
		})
		if err != nil || isNew[0] != (id == "new") {
			t.Errorf("Transact(%s, unique) = %v, %v", id, isNew, err)
		}
	}
	s.enqueueByFunction()
}

// enqueueByFunction calls the SQL function for what waits, of the default source and of others.
func (s *oldSchema) enqueueByFunction() {
	s.t.Helper()
	enqueue := func(id, tenant string) (n int) {
		s.t.Helper()
		_, err := s.p.pool.Exec(s.t.Context(), "SELECT "+tableOf(s.cfg, "enqueue")+"('orders', '{}', id => $1, tenant => $2)", id, tenant)
		must(s.t, err)
		must(s.t, s.p.pool.QueryRow(s.t.Context(), "SELECT count(*) FROM "+tableOf(s.cfg, "messages")+" WHERE id = $1", id).Scan(&n))
		return n
	}
	if n := enqueue("f", "default"); n != 1 {
		s.t.Errorf("%d messages, want 1", n)
	}
	_, err := s.p.pool.Exec(s.t.Context(), "WITH m AS (DELETE FROM "+tableOf(s.cfg, "outbox")+" WHERE id = 'f' RETURNING *) INSERT INTO "+
		tableOf(s.cfg, "outbox_waiting")+" SELECT * FROM m")
	must(s.t, err)
	if n := enqueue("f", "default"); n != 1 {
		s.t.Errorf("%d messages, want the one that waits", n)
	}
	if n := enqueue("f", "acme"); n != 2 {
		s.t.Errorf("%d messages, want another one of the other tenant", n)
	}
	if n := enqueue("f", "acme"); n != 2 {
		s.t.Errorf("%d messages, want none that is in the outbox already", n)
	}
}
