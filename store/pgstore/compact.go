package pgstore

import (
	"context"
	"sync"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
)

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

func newScopes(addScope string, db sqldb.Conn) *scopes {
	return &scopes{db: db, sql: addScope, known: make(map[scope]bool)}
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
