package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/internal/sqldb"
)

const archiveDaysAhead = 8

// PrepareArchive implements [relay.Source]: it makes the partitions of today and the next
// eight days, with bounds in UTC. A lock that it cannot have within a second is left for
// the next call; until then the default partition takes the rows.
func (s *Store[Tx]) PrepareArchive(ctx context.Context) error {
	rows, err := s.core.DB.Query(ctx, s.names.render(`SELECT {clock}()`))
	now, _, err := sqldb.One(rows, err, sqldb.Scan[time.Time])
	if err != nil {
		return s.core.Kind(fmt.Errorf("prepare archive: %w", err))
	}
	today := now.UTC().Truncate(24 * time.Hour)
	for day := range archiveDaysAhead + 1 {
		if err := s.addPartition(ctx, today.AddDate(0, 0, day)); err != nil {
			return s.core.Kind(fmt.Errorf("prepare archive: %w", err))
		}
	}
	return nil
}

func (s *Store[Tx]) addPartition(ctx context.Context, day time.Time) error {
	name := quoteName(s.names.schema) + "." + quoteName(s.names.prefix+"outbox_archive_"+day.Format("20060102"))
	rows, err := s.core.DB.Query(ctx, `SELECT to_regclass($1) IS NOT NULL`, name)
	exists, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
	if err != nil || exists {
		return err
	}
	const layout = "2006-01-02 15:04:05+00"
	stmt := fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s PARTITION OF %s FOR VALUES FROM ('%s') TO ('%s')`,
		name, s.names.render("{outbox_archive}"), day.Format(layout), day.AddDate(0, 0, 1).Format(layout))
	return s.core.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		if _, err := conn.Exec(ctx, `SET LOCAL lock_timeout = '1s'`); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, stmt)
		return err
	})
}
