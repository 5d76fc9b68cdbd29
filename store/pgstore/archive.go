package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

const (
	archiveDaysAhead = 8
	purgeBatch       = 1000
	dayLayout        = "20060102" // at the end of a partition's name
)

const (
	partitionsSQL = `
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = $1::text::regclass`

	// The purges delete a batch by place: no other statement changes these rows.
	purgeRestSQL = `
DELETE FROM {outbox_archive_rest} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {outbox_archive_rest} WHERE published_at <= {clock}() - $1 * interval '1 millisecond' LIMIT $2))`

	purgeIDsSQL = `
DELETE FROM {outbox_ids} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {outbox_ids} WHERE enqueued_at <= {clock}() - $1 * interval '1 millisecond' LIMIT $2))`
)

// MaintainArchive implements [relay.Source]. It makes the partitions of today and the next
// eight days, with bounds in UTC, and drops those of days that are past the retention as a
// whole. A lock that it cannot have within a second is a conflict, left for the next call;
// rows for which there is no partition are in the default one meanwhile.
func (s *Store[Tx]) MaintainArchive(ctx context.Context, retention time.Duration) error {
	err := s.addPartitions(ctx)
	if err == nil {
		err = s.dropPartitions(ctx, retention)
	}
	for _, stmt := range []string{purgeRestSQL, purgeIDsSQL} {
		if err == nil {
			err = s.purge(ctx, s.names.render(stmt), retention)
		}
	}
	if err != nil {
		return s.core.Kind(fmt.Errorf("maintain archive: %w", err))
	}
	return nil
}

// purge runs a statement that deletes a batch until there is nothing left to delete.
func (s *Store[Tx]) purge(ctx context.Context, stmt string, retention time.Duration) error {
	for {
		n, err := s.core.DB.Exec(ctx, stmt, sqlstore.Millis(retention), purgeBatch)
		if err != nil || n < purgeBatch {
			return err
		}
	}
}

// today returns the beginning of the day in UTC, by the store's clock, after d.
func (s *Store[Tx]) today(ctx context.Context, d time.Duration) (time.Time, error) {
	rows, err := s.core.DB.Query(ctx, s.names.render(`SELECT {clock}()`))
	now, _, err := sqldb.One(rows, err, sqldb.Scan[time.Time])
	return now.UTC().Add(d).Truncate(24 * time.Hour), err
}

func (s *Store[Tx]) addPartitions(ctx context.Context) error {
	today, err := s.today(ctx, 0)
	for day := 0; err == nil && day <= archiveDaysAhead; day++ {
		err = s.addPartition(ctx, today.AddDate(0, 0, day))
	}
	return err
}

// addPartition makes a day's partition if there is none. If rows of the day are in the
// default partition already, they and the rest of the day stay there.
func (s *Store[Tx]) addPartition(ctx context.Context, day time.Time) error {
	name := s.partition(s.names.prefix + "outbox_archive_" + day.Format(dayLayout))
	rows, err := s.core.DB.Query(ctx, `SELECT to_regclass($1) IS NOT NULL`, name)
	exists, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
	if err != nil || exists {
		return err
	}
	const layout = "2006-01-02 15:04:05+00"
	err = s.alterArchive(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s PARTITION OF %s FOR VALUES FROM ('%s') TO ('%s')`,
		name, s.names.render("{outbox_archive}"), day.Format(layout), day.AddDate(0, 0, 1).Format(layout)))
	var state sqlStater
	if errors.As(err, &state) && state.SQLState() == "23514" { // check violation
		return nil
	}
	return err
}

// dropPartitions drops the partitions of the days that ended longer than retention ago.
func (s *Store[Tx]) dropPartitions(ctx context.Context, retention time.Duration) error {
	first, err := s.today(ctx, -retention) // the first day to keep
	if err != nil {
		return err
	}
	rows, err := s.core.DB.Query(ctx, partitionsSQL, s.names.render("{outbox_archive}"))
	names, err := sqldb.Collect(rows, err, sqldb.Scan[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		day, err := time.Parse(dayLayout, name[max(0, len(name)-len(dayLayout)):])
		if err != nil || !strings.HasPrefix(name, s.names.prefix+"outbox_archive_") || !day.Before(first) {
			continue // the default partition, somebody's own, or too young
		}
		if err := s.alterArchive(ctx, "DROP TABLE IF EXISTS "+s.partition(name)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store[Tx]) partition(name string) string {
	return quoteName(s.names.schema) + "." + quoteName(name)
}

// alterArchive runs a statement that locks the whole archive, and gives up soon if it can't.
func (s *Store[Tx]) alterArchive(ctx context.Context, stmt string) error {
	return s.core.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		if _, err := conn.Exec(ctx, `SET LOCAL lock_timeout = '1s'`); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, stmt)
		return err
	})
}
