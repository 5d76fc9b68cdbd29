package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestUpgrade (AS-71): migrations apply to an empty database and to the last version; names are quoted or refused.
//
//test:sessions
func TestUpgrade(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	newest := len(w.store.Migrations())
	for name, cfg := range map[string]pgstore.Config{
		"own schema and prefix": {Schema: w.schema + "_2", TablePrefix: "app_"},
		"hostile names":         {Schema: fmt.Sprintf(`x"; DROP SCHEMA public; -- %08x`, rand.Uint32()), TablePrefix: `o'b"r. `},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := pgstore.New(w.pool, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer w.exec(t, "DROP SCHEMA "+pgx.Identifier{cfg.Schema}.Sanitize()+" CASCADE")
			for target := 1; target <= newest; target++ { // every version from the first on
				if v, err := s.Migrate(t.Context(), pgstore.MigrateOptions{LockWait: patience, Version: target}); err != nil || v != target {
					t.Fatalf("Migrate to %d = %d, %v", target, v, err)
				}
			}
			if v, err := s.Migrate(t.Context(), pgstore.MigrateOptions{LockWait: patience, Source: `o'brien\`}); err != nil || v != newest {
				t.Fatalf("Migrate again = %d, %v; want nothing to do", v, err)
			}
			if v, err := s.SchemaVersion(t.Context()); err != nil || v != newest {
				t.Errorf("SchemaVersion() = %d, %v", v, err)
			}
			table := pgx.Identifier{cfg.Schema, cfg.TablePrefix + "outbox"}.Sanitize()
			w.exec(t, "INSERT INTO "+table+" (id, topic, payload) VALUES ('m', 't', '{}')")
			pub := &recorder{}
			r, err := relay.New(s, pub, quick(relay.Config{}))
			if err != nil {
				t.Fatal(err)
			}
			stop := run(t, t.Context(), r.Run)
			eventually(t, "a message goes its way", func() bool { return pub.count("m") == 1 })
			stop()
			if got := pub.sent[0].Source; got != `o'brien\` {
				t.Errorf("source = %q, want the one set at migrate", got)
			}
		})
	}
	for name, cfg := range map[string]pgstore.Config{
		"blank": {Schema: "  "}, "long": {Schema: strings.Repeat("x", 41)}, "control character": {TablePrefix: "a\x00"}, "template": {TablePrefix: "{outbox}"},
	} {
		var invalid *waybill.InvalidError
		if _, err := pgstore.New(w.pool, cfg); !errors.As(err, &invalid) {
			t.Errorf("a %s name: %v, want an InvalidError", name, err)
		}
	}
	if v, err := w.store.SchemaVersion(t.Context()); err != nil || v != newest {
		t.Errorf("SchemaVersion() = %d, %v", v, err)
	}
}

// TestMigrateByHand runs what waybill migrate --print shows through psql.
//
//test:sessions
func TestMigrateByHand(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	s, err := pgstore.New(w.pool, pgstore.Config{Schema: w.schema + "_h"})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range s.Migrations() {
		w.psql(t, m.Up)
	}
	defer w.exec(t, "DROP SCHEMA "+pgx.Identifier{w.schema + "_h"}.Sanitize()+" CASCADE")
	if v, err := s.Migrate(t.Context(), pgstore.MigrateOptions{LockWait: patience, Source: "psql"}); err != nil || v != len(s.Migrations()) {
		t.Errorf("Migrate after migrations by hand = %d, %v; want nothing left to do", v, err)
	}
}

// TestDownMigrations undoes every step.
//
//test:sessions
func TestDownMigrations(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	s, err := pgstore.New(w.pool, pgstore.Config{Schema: w.schema + "_d"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(t.Context(), pgstore.MigrateOptions{LockWait: patience}); err != nil {
		t.Fatal(err)
	}
	list := s.Migrations()
	for i := len(list) - 1; i >= 0; i-- {
		w.exec(t, list[i].Down)
	}
	if n := w.number(t, "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 AND relkind IN ('r', 'p', 'v')", w.schema+"_d"); n != 0 {
		t.Errorf("%d tables or views are left, want none", n)
	}
	w.exec(t, "DROP SCHEMA "+pgx.Identifier{w.schema + "_d"}.Sanitize()+" CASCADE")
}
