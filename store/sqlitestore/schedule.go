package sqlitestore

import (
	"context"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// ReleaseScheduled implements [contract.Source].
func (s *Store) ReleaseScheduled(ctx context.Context, limit int) (int, error) {
	due := sqlstore.Due[int64]{Any: s.sql.AnyDue, List: s.sql.DueScheduled, Scan: sqldb.Scan[int64], Release: s.release,
		Position: func(position int64) int64 { return position }, Refuse: s.core.SQL.Cancel.Refuse, Remove: s.core.SQL.Cancel.Remove}
	return sqlstore.ReleaseDue(ctx, s.core, due, limit)
}

// release reports whether the outbox has taken the message.
func (s *Store) release(ctx context.Context, conn sqldb.Conn, position int64) (taken bool, err error) {
	n, err := conn.Exec(ctx, s.sql.ReleaseOne, position)
	return n > 0, err
}
