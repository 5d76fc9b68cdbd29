package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestPostgres_PositionDrawnAgain settles a message that the server has lost, in a crash without its
// latest commits, say, when its position is another one's. That one stays.
func TestPostgres_PositionDrawnAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newOldSchema(t, nil)
	store, p := s.store, s.p
	_, err := store.Migrate(ctx, pgstore.MigrateOptions{})
	must(t, err)
	lease, err := store.RenewLanes(ctx, relay.LeaseRequest{Node: "r1", Join: true, TTL: time.Hour})
	must(t, err)
	for name, st := range map[string]relay.Settlement{
		"published":           {Outcome: relay.Published},
		"published, followed": {Outcome: relay.Published, Destinations: []string{"y"}},
		"failed":              {Outcome: relay.Wait, Attempts: 1, Error: "no"},
		"dead":                {Outcome: relay.Dead, Reason: waybill.ReasonRejected, Error: "never"},
	} {
		for _, archive := range []bool{false, true} {
			enqueueAs(t, store, waybill.Message{ID: "lost", Topic: "orders", Key: "k", Source: "shop"})
			claims, err := store.ClaimMessages(ctx, relay.ClaimRequest{Lanes: lease.Lanes, Limit: 10, Due: true})
			must(t, err)
			if len(claims) != 1 || claims[0].Message.ID != "lost" {
				t.Fatalf("%s: claims = %+v, want the message lost", name, claims)
			}
			_, err = p.pool.Exec(ctx, "UPDATE "+tableOf(s.cfg, "outbox")+" SET id = 'found' WHERE id = 'lost'")
			must(t, err)
			st.Claim = &claims[0]
			lost, err := store.SettleMessages(ctx, relay.SettleRequest{Node: "r1", Archive: archive, Settlements: []relay.Settlement{st}})
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
	isNew, err := store.Transact(t.Context(), func(context.Context, pgx.Tx) ([]waybill.Message, error) { return []waybill.Message{m}, nil }, false)
	if err != nil || !isNew[0] {
		t.Fatalf("Transact() = %v, %v", isNew, err)
	}
}
