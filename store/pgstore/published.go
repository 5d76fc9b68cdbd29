package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// PublishedAt returns when the message with this id was published, by the store's clock; the first
// time, if it was published several times. The error is [waybill.ErrNotFound] if it was not
// published within the time given, or if the relay keeps no archive. It reads up to all that was
// published within that time.
func (s *Store[Tx]) PublishedAt(ctx context.Context, id string, within time.Duration) (time.Time, error) {
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

// PublishedSince calls visit for the archived messages of these topics, and for those sent to
// destinations of these names, from since on by the store's clock, in the order of publishing. A
// message with several destinations is visited for each. An error of visit ends it and is
// returned. A connection is held meanwhile. Rows that do not decode to a message are left out: they
// were not published.
func (s *Store[Tx]) PublishedSince(ctx context.Context, topics []string, since time.Time, visit func(*waybill.Message) error) error {
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
