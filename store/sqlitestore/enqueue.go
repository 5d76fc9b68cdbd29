package sqlitestore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/outbox"
)

// enqueue takes a statement per message: there is no network between us and SQLite.
func (s *Store) enqueue(ctx context.Context, conn sqldb.Conn, b outbox.Batch) ([]bool, error) {
	isNew := make([]bool, len(b.Messages))
	for i := range b.Messages {
		m := &b.Messages[i]
		n, err := conn.Exec(ctx, s.sql.Enqueue, append(sqlstore.EnqueueArgs(m), b.Remember)...)
		if err == nil && b.Remember { // also that of one which is pending
			_, err = conn.Exec(ctx, s.sql.AddUnique, m.ID, m.Source, m.Tenant)
		}
		if err != nil {
			return nil, fmt.Errorf("enqueue %d messages: %w", len(b.Messages), err)
		}
		isNew[i] = n > 0
	}
	return isNew, nil
}
