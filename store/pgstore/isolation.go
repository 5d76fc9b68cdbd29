package pgstore

import (
	"context"
	"sync/atomic"

	"github.com/waybill-go/waybill/internal/sqldb"
)

const defaultIsolationSQL = `SELECT current_setting('default_transaction_isolation') = 'read committed'`

// isolation remembers how the sessions of the application are set up.
type isolation struct{ known, readCommitted atomic.Bool }

// readCommitted runs fn at the isolation level READ COMMITTED: as it is where sessions begin
// with that level, which saves two round trips, else in a transaction that says so. At a
// higher level the relay's statements would clash for nothing, and claims would lock what
// they read.
func (s *Store[Tx]) readCommitted(ctx context.Context, fn func(conn sqldb.Conn) error) error {
	if !s.isolation.known.Load() {
		rows, err := s.core.DB.Query(ctx, defaultIsolationSQL)
		plain, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
		if err != nil {
			return err
		}
		s.isolation.readCommitted.Store(plain)
		s.isolation.known.Store(true)
	}
	if s.isolation.readCommitted.Load() {
		return fn(s.core.DB)
	}
	return s.core.InTx(ctx, func(_ Tx, conn sqldb.Conn) error { return fn(conn) })
}
