package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
)

// TestPostgres_Prepared explores writers that commit in two phases, on a server that allows it: few do.
func TestPostgres_Prepared(t *testing.T) {
	t.Parallel()
	server := ownserver.Postgres(t, "max_prepared_transactions=10")
	for _, level := range []string{"read committed", "serializable"} {
		t.Run(level, func(t *testing.T) {
			e := newPostgresOn(t, server, level)
			for _, s := range preparedScenarios() {
				t.Run(s.name, func(t *testing.T) { explore(t, e, s, atMost(40)) })
			}
			t.Logf("%d orders", e.orders)
		})
	}
}

func preparedScenarios() []scenario[pgx.Tx] {
	return []scenario[pgx.Tx]{
		{"while a relay works", ready[pgx.Tx]("a"), []session[pgx.Tx]{relays[pgx.Tx](2), prepares("COMMIT", "b")}, wantDrained[pgx.Tx]("a")},
		{"two, and a relay", ready[pgx.Tx](), []session[pgx.Tx]{relays[pgx.Tx](1), prepares("COMMIT", "a"), prepares("COMMIT", "b")}, wantDrained[pgx.Tx]()},
		{"one behind the other", ready[pgx.Tx](), []session[pgx.Tx]{relays[pgx.Tx](2), prepares("COMMIT", "a"), writer[pgx.Tx]("b")}, wantDrained[pgx.Tx]()},
		{"of one id", ready[pgx.Tx](), []session[pgx.Tx]{prepares("COMMIT", "a"), prepares("COMMIT", "a")}, wantDrained[pgx.Tx]()},
		{"of an id that comes again", ready[pgx.Tx](), []session[pgx.Tx]{prepares("ROLLBACK", "a"), writer[pgx.Tx]("a")}, wantDrained[pgx.Tx]()},
	}
}

// prepares enqueues messages in a transaction of two phases. The second ends it by the word given, whatever happens meanwhile.
func prepares(word string, ids ...string) session[pgx.Tx] {
	return func(ctx context.Context, e *env[pgx.Tx], p *party[pgx.Tx]) error {
		tx, err := p.begin(ctx)
		if err != nil {
			return err
		}
		gid := fmt.Sprintf("'waybill %d %s'", slices.Index(e.parties, p), waybill.NewID())
		for _, id := range ids {
			if _, err = p.enqueue(ctx, tx, msg(id, "k")); err != nil {
				break
			}
		}
		if err = conflicts(err); err == nil {
			err = p.exec(ctx, tx, "PREPARE TRANSACTION "+gid)
		}
		if err != nil {
			return errors.Join(err, p.rollback(ctx, tx))
		}
		err = p.exec(context.WithoutCancel(ctx), tx, word+" PREPARED "+gid)
		if err == nil && word == "COMMIT" {
			p.committed = ids
		}
		return errors.Join(err, p.rollback(ctx, tx)) // of nothing
	}
}
