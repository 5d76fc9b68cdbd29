package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// PublishedAt implements push.Archive. It reads up to all that was published within that time.
func (s *engine[Tx]) PublishedAt(ctx context.Context, id string, within time.Duration) (time.Time, error) {
	rows, err := s.core.DB.Query(ctx, s.sql.PublishedAt, id, sqlstore.Millis(within))
	at, found, err := sqldb.One(rows, err, sqldb.Scan[time.Time])
	switch {
	case err != nil:
		return at, fmt.Errorf("find what was published: %w", s.core.Kind(err))
	case !found:
		return at, waybill.ErrNotFound
	}
	return at.UTC(), nil
}

// PublishedSince implements push.Archive. Rows that do not decode to a message are left out: they were not published.
func (s *engine[Tx]) PublishedSince(ctx context.Context, topics []string, since time.Time, visit func(*waybill.Message) error) error {
	rows, err := s.core.DB.Query(ctx, s.sql.PublishedSince, since, topics)
	if err != nil {
		return fmt.Errorf("read what was published: %w", s.core.Kind(err))
	}
	defer rows.Close()
	for rows.Next() {
		var row sqldb.MessageRow
		if err := rows.Scan(row.Dest()...); err != nil {
			return fmt.Errorf("read what was published: %w", s.core.Kind(err))
		}
		m, err := row.Message()
		if err != nil {
			continue
		}
		if err := visit(&m); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read what was published: %w", s.core.Kind(err))
	}
	return nil
}
