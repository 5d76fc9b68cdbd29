package sqldb

import (
	"context"
	"database/sql"
	"runtime"
	"strings"
	"sync"
)

// maxPrepared is how many statements are kept. A store has fewer, except for searches, whose text depends on
// the filter.
const maxPrepared = 300

// Prepared keeps prepared statements for a database in which parsing takes longer than running them, as in SQLite.
// A statement that was run is prepared when the next transaction begins: within one there may be no second connection
// to prepare it on. It is safe for concurrent use. The statements are closed when it is no longer used.
type Prepared struct {
	mu     sync.Mutex
	known  map[string]*sql.Stmt // nil for one that is yet to be prepared
	wanted []string
}

// NewPrepared returns one without statements. They are all of one database.
func NewPrepared() *Prepared {
	p := &Prepared{known: make(map[string]*sql.Stmt)}
	runtime.AddCleanup(p, closeAll, p.known)
	return p
}

func closeAll(known map[string]*sql.Stmt) {
	for _, s := range known {
		if s != nil {
			_ = s.Close() // the database may be closed
		}
	}
}

// statement returns the prepared statement of a text, nil if there is none yet.
func (p *Prepared) statement(query string) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, known := p.known[query]
	if !known && len(p.known) < maxPrepared && !strings.Contains(query, ";") { // not several at once
		p.known[query] = nil
		p.wanted = append(p.wanted, query)
	}
	return s
}

// prepare prepares what was run since it was called last. What cannot be prepared, as while tables are missing, is
// forgotten: it fails by itself when it is run.
func (p *Prepared) prepare(ctx context.Context, db *sql.DB) {
	p.mu.Lock()
	wanted := p.wanted
	p.wanted = nil
	p.mu.Unlock()
	for _, query := range wanted {
		s, err := db.PrepareContext(ctx, query)
		p.mu.Lock()
		if err == nil {
			p.known[query] = s
		} else {
			delete(p.known, query)
		}
		p.mu.Unlock()
	}
}

// prepared is a statement in the place of its text.
type prepared struct{ *sql.Stmt }

func (s prepared) ExecContext(ctx context.Context, _ string, args ...any) (sql.Result, error) {
	return s.Stmt.ExecContext(ctx, args...)
}

func (s prepared) QueryContext(ctx context.Context, _ string, args ...any) (*sql.Rows, error) {
	return s.Stmt.QueryContext(ctx, args...)
}

// elsewhere reports whether a statement was prepared by another [sql.DB] than that of the caller's transaction,
// which only the text of the error shows.
func elsewhere(err error) bool {
	return err != nil && strings.Contains(err.Error(), "statement from different database")
}
