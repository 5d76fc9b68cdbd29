package mysqlstore

import (
	"context"
	"strings"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/outbox"
)

// ReleaseScheduled implements [contract.Source].
func (s *Store) ReleaseScheduled(ctx context.Context, limit int) (int, error) {
	due := sqlstore.Due[scheduled]{Any: s.sql.AnyDue, List: s.sql.DueScheduled, Scan: scanScheduled, Release: s.release,
		Position: func(m scheduled) int64 { return m.position }, Refuse: s.core.SQL.Cancel.Refuse, Remove: s.core.SQL.Cancel.Remove}
	release := func(limit int) (int, error) { return sqlstore.ReleaseDue(ctx, s.relays, due, limit) }
	return sqlstore.ReleaseAround(limit, release, func() error {
		_, err := briefly{s.core.DB}.Exec(ctx, s.sql.Postpone)
		return s.core.Kind(err)
	})
}

// scheduled is a row of a message that is due.
type scheduled struct {
	position int64
	identity outbox.Identity
	message  []any // its columns as they are
}

func scanScheduled(r sqldb.Rows) (m scheduled, err error) {
	m.message = make([]any, strings.Count(sqldb.MessageColumns, ",")+1)
	dest := []any{&m.position, &m.identity.ID, &m.identity.Source, &m.identity.Tenant}
	for i := range m.message {
		dest = append(dest, &m.message[i])
	}
	err = r.Scan(dest...)
	return m, err
}

// release reports whether the outbox has taken the message.
func (s *Store) release(ctx context.Context, conn sqldb.Conn, m scheduled) (taken bool, err error) {
	conn = briefly{conn}
	known, err := s.known(ctx, conn, []string{m.identity.ID}, false)
	if err != nil || known.pending[m.identity] {
		return false, err
	}
	_, err = conn.Exec(ctx, strings.Replace(s.sql.ReleaseOne, "{values}", placeholders(len(m.message)), 1), m.message...)
	if isDuplicate(err) { // somebody has enqueued it meanwhile
		return false, nil
	}
	return err == nil, err
}
