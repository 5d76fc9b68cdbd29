package interleave_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill/store/pgstore"
)

// TestPostgres_Migrate explores how a schema is migrated while programs of this release are at work: its last
// step, because they work with the version before that.
func TestPostgres_Migrate(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "serializable"} {
		t.Run(level, func(t *testing.T) {
			e := newPostgres(t, level)
			beforeTheLastSteps(t, e)
			for _, s := range migrateScenarios() {
				t.Run(s.name, func(t *testing.T) { explore(t, e, s, atMost(20)) })
			}
			t.Logf("%d orders", e.orders)
		})
	}
}

func migrateScenarios() []scenario[pgx.Tx] {
	return []scenario[pgx.Tx]{
		{"while a writer commits", ready[pgx.Tx](), []session[pgx.Tx]{migrates, writer[pgx.Tx]("a", "b")}, wantMigrated(wantDrained[pgx.Tx]())},
		{"while a relay works", ready[pgx.Tx]("a", "b"), []session[pgx.Tx]{migrates, relays[pgx.Tx](2)}, wantMigrated(wantDrained[pgx.Tx]("a", "b"))},
		{"while both are at work", ready[pgx.Tx]("a"), []session[pgx.Tx]{migrates, relays[pgx.Tx](1), writer[pgx.Tx]("b")}, wantMigrated(wantDrained[pgx.Tx]("a"))},
		{"while a letter is requeued", dead[pgx.Tx]("a"), []session[pgx.Tx]{requeues[pgx.Tx], migrates}, wantMigrated(wantOneOf[pgx.Tx]("requeued"))},
		{"while copies of a message are handled", nil, []session[pgx.Tx]{handles[pgx.Tx](nil), handles[pgx.Tx](nil), migrates}, wantMigrated(wantOneEffect[pgx.Tx])},
		{"twice, while a writer commits", ready[pgx.Tx](), []session[pgx.Tx]{migrates, migrates, writer[pgx.Tx]("a")}, wantMigrated(wantDrained[pgx.Tx]())},
	}
}

// beforeTheLastSteps lets each run begin with the oldest schema that this release works with.
func beforeTheLastSteps(t *testing.T, e *env[pgx.Tx]) {
	t.Helper()
	opened, err := e.admin.open()
	must(t, err)
	store := opened.(*pgstore.Store[pgx.Tx])
	steps := store.Migrations()
	if len(steps) == pgstore.MinSchemaVersion {
		t.Fatalf("this release works with schema version %d alone: there is nothing to explore", len(steps))
	}
	wipe := e.wipe
	e.wipe = func(ctx context.Context) error {
		if err := wipe(ctx); err != nil {
			return err
		}
		version, err := store.SchemaVersion(ctx)
		for ; err == nil && version > pgstore.MinSchemaVersion; version-- {
			err = e.admin.inTx(ctx, func(tx pgx.Tx) error { return e.admin.exec(ctx, tx, steps[version-1].Down) })
		}
		return err
	}
}

func migrates(ctx context.Context, _ *env[pgx.Tx], p *party[pgx.Tx]) error {
	version, err := p.store.(*pgstore.Store[pgx.Tx]).Migrate(ctx, pgstore.MigrateOptions{})
	p.say("has version %d", version)
	return err
}

// wantMigrated expects the newest version, and what else holds.
func wantMigrated(end func(context.Context, *env[pgx.Tx]) error) func(context.Context, *env[pgx.Tx]) error {
	return func(ctx context.Context, e *env[pgx.Tx]) error {
		store := e.admin.store.(*pgstore.Store[pgx.Tx])
		version, err := store.SchemaVersion(ctx)
		if newest := len(store.Migrations()); err == nil && version != newest {
			err = fmt.Errorf("the schema has version %d, want %d", version, newest)
		}
		if err != nil {
			return err
		}
		return end(ctx, e)
	}
}
