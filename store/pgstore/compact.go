package pgstore

import (
	"context"
	"strings"
	"sync"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// compactGateSQL is the gate of the compact inbox. It looks into the full one too: what was
// processed before the store was told to be compact stays processed. The message's id and
// extra data are not kept, nor is a hash of another form than ours; the first part gives
// their parameters a type.
const compactGateSQL = `
WITH unread AS (SELECT $6::text, $9::text)
INSERT INTO {inbox_compact} (scope, key, payload_hash, dead)
SELECT (SELECT s.id FROM {inbox_scopes} s
         WHERE s.tenant = $1 AND s.consumer = $2 AND s.source = $3 AND s.alias = $4 AND s.type = $7),
       {inbox_key}($1, $2, $3, $4, $5), CASE WHEN $8 ~ '^[0-9a-f]{64}$' THEN left($8, 32)::uuid END, {dead}
 WHERE NOT EXISTS (SELECT 1 FROM {inbox} WHERE ` + sqlstore.InboxKey + `)
ON CONFLICT (key) DO NOTHING`

// compactGateAllSQL is the same for many records, in the order of the arrays.
const compactGateAllSQL = `
WITH i AS MATERIALIZED (
    SELECT i.*, {inbox_key}(i.tenant, i.consumer, i.source, i.alias, i.message_key) AS hash FROM ` + recordArrays + `
)
INSERT INTO {inbox_compact} (scope, key, payload_hash)
SELECT s.id, i.hash, CASE WHEN i.payload_hash ~ '^[0-9a-f]{64}$' THEN left(i.payload_hash, 32)::uuid END
  FROM i LEFT JOIN {inbox_scopes} s USING (tenant, consumer, source, alias, type)
 WHERE NOT EXISTS (SELECT 1 FROM {inbox} f WHERE f.tenant = i.tenant AND f.consumer = i.consumer AND f.source = i.source
                      AND f.alias = i.alias AND f.message_key = i.message_key)
 ORDER BY i.ord
ON CONFLICT (key) DO NOTHING`

// What a record's hash is, in hex, as far as it is kept.
const compactHash = `coalesce(replace(c.payload_hash::text, '-', ''), '')`

const (
	compactOutcomeSQL = `
SELECT c.dead, ` + compactHash + ` FROM {inbox_compact} c WHERE c.key = {inbox_key}($1, $2, $3, $4, $5)
UNION ALL ` + gateOutcomeSQL

	compactOutcomesSQL = `
SELECT r.is_new, r.dead, r.hash
  FROM ` + keyArrays + `
 CROSS JOIN LATERAL (
    SELECT coalesce(c.xmin = pg_current_xact_id_if_assigned()::xid, false) AS is_new, c.dead, ` + compactHash + ` AS hash
      FROM {inbox_compact} c
     WHERE c.key = {inbox_key}(k.tenant, k.consumer, k.source, k.alias, k.message_key)
    UNION ALL
    SELECT false, f.dead, coalesce(f.payload_hash, '') FROM {inbox} f
     WHERE f.tenant = k.tenant AND f.consumer = k.consumer AND f.source = k.source AND f.alias = k.alias AND f.message_key = k.message_key
    LIMIT 1) r
 ORDER BY k.ord`

	// compactFindSQL finds a record in either form. Of a compact one there is neither the
	// message's id nor extra data.
	compactFindSQL = `
SELECT '', coalesce(s.type, ''), ` + compactHash + `, NULL::text, c.processed_at, c.dead
  FROM {inbox_compact} c LEFT JOIN {inbox_scopes} s ON s.id = c.scope WHERE c.key = {inbox_key}($1, $2, $3, $4, $5)
UNION ALL ` + findRecordSQL

	// addScopeSQL draws an id only where there is no row yet: ids are integers, and it runs again for a scope that is
	// there already, in the transaction of a caller once for each record.
	addScopeSQL = `
INSERT INTO {inbox_scopes} (tenant, consumer, source, alias, type)
SELECT $1, $2, $3, $4, $5
 WHERE NOT EXISTS (SELECT 1 FROM {inbox_scopes} s WHERE s.tenant = $1 AND s.consumer = $2 AND s.source = $3 AND s.alias = $4 AND s.type = $5)
ON CONFLICT DO NOTHING`
)

// gateTexts are the statements of the gate.
type gateTexts struct{ one, dead, outcome, all, outcomes, find string }

func gateTextsOf(compact bool) gateTexts {
	if !compact {
		return gateTexts{gateSQL, gateDeadSQL, gateOutcomeSQL, gateAllSQL, gateOutcomesSQL, findRecordSQL}
	}
	return gateTexts{compactGate("false"), compactGate(lockSoon), compactOutcomeSQL, compactGateAllSQL, compactOutcomesSQL, compactFindSQL}
}

func compactGate(dead string) string { return strings.ReplaceAll(compactGateSQL, "{dead}", dead) }

// scopes makes sure that there is a row for what the records of a message have in common. It
// does so before the handler's transaction, in which others would have to wait for it; in a
// transaction of the caller's own they do so once.
type scopes struct {
	db  sqldb.Conn
	sql string

	mu    sync.Mutex
	known map[scope]bool
}

// scope is what the records of a message have in common with many others.
type scope struct{ tenant, consumer, source, alias, typ string }

func scopeOf(r *inbox.Record) scope { return scope{r.Tenant, r.Consumer, r.Source, r.Alias, r.Type} }

const maxKnownScopes = 10_000

func newScopes(n names, db sqldb.Conn) *scopes {
	return &scopes{db: db, sql: n.render(addScopeSQL), known: make(map[scope]bool)}
}

// add runs on conn. What a transaction adds is not noted: it may be rolled back.
func (s *scopes) add(ctx context.Context, conn sqldb.Conn, recs ...inbox.Record) error {
	for i := range recs {
		v := scopeOf(&recs[i])
		if s.knows(v) {
			continue
		}
		if _, err := conn.Exec(ctx, s.sql, v.tenant, v.consumer, v.source, v.alias, v.typ); err != nil {
			return err
		}
		if conn == s.db {
			s.note(v)
		}
	}
	return nil
}

func (s *scopes) knows(v scope) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[v]
}

func (s *scopes) note(v scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnownScopes {
		clear(s.known)
	}
	s.known[v] = true
}
