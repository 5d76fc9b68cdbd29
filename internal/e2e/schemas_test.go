package e2e

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/store/pgstore"
)

// schema is one with our tables and two of a service.
type schema struct {
	name       string
	definition string // of what is in it; empty if no other story is to have it
}

// schemas are those that stories have left empty, for the next ones in the same kind of session: making one and dropping it
// takes the server half a second of CPU, and migrations wait for each other.
var schemas = struct {
	sync.Mutex
	free map[string][]schema // by kind of session
}{free: make(map[string][]schema)}

// takeSchema returns a free schema for a kind of session, if there is one.
func takeSchema(kind string) (s schema, found bool) {
	schemas.Lock()
	defer schemas.Unlock()
	list := schemas.free[kind]
	if len(list) == 0 {
		return schema{}, false
	}
	s, schemas.free[kind] = list[len(list)-1], list[:len(list)-1]
	return s, true
}

// keepers are connections to the tests' own server for what is not part of a story. Triggers, which would count letters that are
// deleted, do nothing there.
var keepers = sync.OnceValues(func() (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(postgresURL())
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.RuntimeParams["session_replication_role"] = "replica"
	return pgxpool.NewWithConfig(context.Background(), cfg)
})

// dropFreeSchemas is for the end of all stories.
func dropFreeSchemas() (err error) {
	for _, list := range schemas.free {
		for _, s := range list {
			err = errors.Join(err, s.drop(context.Background()))
		}
	}
	return err
}

// fill makes what is in a schema.
func (w *world) fill(t *testing.T) {
	t.Helper()
	if _, err := w.store.Migrate(t.Context(), pgstore.MigrateOptions{LockWait: patience, Source: "psql"}); err != nil {
		t.Fatalf("migrate (start the servers with `make services`): %v", err)
	}
	w.exec(t, "CREATE TABLE "+w.table("orders")+" (id text PRIMARY KEY)")
	w.exec(t, "CREATE TABLE "+w.table("effects")+" (n bigint GENERATED ALWAYS AS IDENTITY, consumer text, message_id text, at timestamptz DEFAULT clock_timestamp())")
}

// leave drops a schema whose story has failed, has changed what is in it, or has left a session; any other it empties for the
// next story in that kind of session.
func (s schema) leave(kind string, failed bool) error {
	ctx := context.Background()
	if failed || s.definition == "" || !s.deserted(ctx) {
		return s.drop(ctx)
	}
	if now, err := s.define(ctx); err != nil || now != s.definition {
		return errors.Join(err, s.drop(ctx))
	}
	if err := s.empty(ctx); err != nil {
		return err
	}
	schemas.Lock()
	defer schemas.Unlock()
	schemas.free[kind] = append(schemas.free[kind], s)
	return nil
}

func (s schema) drop(ctx context.Context) error {
	pool, err := keepers()
	if err != nil {
		return err
	}
	return dropSchema(ctx, pool, s.name)
}

// dropSchema removes a schema. What a story has left may still be at its last statement in the server; of two that wait for
// each other PostgreSQL fails one, and if that is this one it tries again.
func dropSchema(ctx context.Context, pool *pgxpool.Pool, name string) error {
	for tries := 1; ; tries++ {
		_, err := pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{name}.Sanitize()+" CASCADE")
		var failed *pgconn.PgError
		if !errors.As(err, &failed) || failed.Code != "40P01" || tries == 10 {
			return err
		}
	}
}

// deserted reports whether the sessions of the story have ended: they bear the schema's name. The server sees a moment later
// that a connection is gone.
func (s schema) deserted(ctx context.Context) bool {
	pool, err := keepers()
	for tries := 0; err == nil && tries < 20; tries++ {
		var sessions int
		err = pool.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", s.name).Scan(&sessions)
		if err == nil && sessions == 0 {
			return true
		}
		<-time.After(50 * time.Millisecond)
	}
	return false
}

// define describes tables, functions, triggers and grants.
func (s schema) define(ctx context.Context) (definition string, err error) {
	pool, err := keepers()
	if err != nil {
		return "", err
	}
	err = pool.QueryRow(ctx, `
		WITH n AS (SELECT oid, nspacl FROM pg_namespace WHERE nspname = $1), described(thing) AS (
		    SELECT nspacl::text FROM n
		    UNION ALL SELECT format('%s %s %s %s %s %s %s', c.oid, relname, relnatts, relchecks, relrowsecurity, relacl, reloptions)
		      FROM n JOIN pg_class c ON relnamespace = n.oid
		    UNION ALL SELECT format('%s %s %s', tgrelid, tgname, tgenabled)
		      FROM n JOIN pg_class c ON relnamespace = n.oid JOIN pg_trigger ON tgrelid = c.oid
		    UNION ALL SELECT format('%s %s %s', proname, prosrc, proacl) FROM n JOIN pg_proc ON pronamespace = n.oid)
		SELECT md5(string_agg(thing, ';' ORDER BY thing)) FROM described`, s.name).Scan(&definition)
	return definition, err
}

// empty deletes every row but those that migrations have written, and lets numbers begin from the start.
func (s schema) empty(ctx context.Context) error {
	pool, err := keepers()
	if err != nil {
		return err
	}
	rows, err := pool.Query(ctx, `
		SELECT CASE WHEN relkind = 'S' THEN format('SELECT setval(%s, %s, false)', c.oid, seqstart)
		            WHEN relname = 'relay_lanes' THEN format('UPDATE %s SET owner = NULL, since = NULL, epoch = DEFAULT', c.oid::regclass)
		            ELSE format('DELETE FROM %s', c.oid::regclass) END
		  FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace LEFT JOIN pg_sequence ON seqrelid = c.oid
		 WHERE nspname = $1 AND relkind IN ('r', 'p', 'S') AND NOT relispartition AND relname NOT IN ('schema_versions', 'locks')`, s.name)
	if err != nil {
		return err
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	var batch pgx.Batch
	for _, statement := range statements {
		batch.Queue(statement)
	}
	return pool.SendBatch(ctx, &batch).Close()
}
