package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

var errBusy = errors.New("another relay maintains the archive")

// MaintainArchive implements [contract.Source]. It creates the partitions of today and the next
// eight days, with bounds in UTC, and drops those of days that are past the retention as a
// whole. Rows for which there was no partition are in the default one, and are removed in
// batches.
//
// Each step is a separate transaction, which begins by asking for the janitor's lock: no
// transaction is open for long, and a caller that finds the lock taken leaves the rest to its
// owner. A step that meets another lock is abandoned after a tenth of a second and reported as a
// conflict when the others are done.
func (s *engine[Tx]) MaintainArchive(ctx context.Context, req contract.MaintainRequest) (contract.Maintained, error) {
	var done contract.Maintained
	steps := []func(context.Context, contract.MaintainRequest, *contract.Maintained) error{
		s.addPartitions, s.dropPartitions, s.purgeRest, s.purgeIDs,
	}
	if req.Retention <= 0 {
		steps = steps[:1]
	}
	var locked error
	for _, step := range steps {
		err := s.core.Kind(step(ctx, req, &done))
		switch {
		case errors.Is(err, errBusy):
			done.Busy = true
			return done, nil
		case waybill.KindOf(err) == waybill.Conflict:
			locked = fmt.Errorf("maintain archive: %w", err)
		case err != nil:
			return done, fmt.Errorf("maintain archive: %w", err)
		}
	}
	return done, locked
}

// asJanitor runs one step in a transaction that holds the janitor's lock.
func (s *engine[Tx]) asJanitor(ctx context.Context, step func(conn sqldb.Conn) error) error {
	return s.core.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		rows, err := conn.Query(ctx, s.sql.TryJanitor)
		mine, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
		if err != nil {
			return err
		}
		if !mine {
			return errBusy
		}
		return step(conn)
	})
}

func (s *engine[Tx]) purgeRest(ctx context.Context, req contract.MaintainRequest, done *contract.Maintained) error {
	return s.purge(ctx, s.sql.PurgeRest, req, done)
}

func (s *engine[Tx]) purgeIDs(ctx context.Context, req contract.MaintainRequest, done *contract.Maintained) error {
	return s.purge(ctx, s.sql.PurgeIDs, req, done)
}

// purge runs a statement that deletes a batch until there is nothing left to delete.
func (s *engine[Tx]) purge(ctx context.Context, stmt string, req contract.MaintainRequest, done *contract.Maintained) error {
	n, err := sqlstore.PurgeAll(ctx, req.BatchSize, func() (deleted int64, err error) {
		err = s.asJanitor(ctx, func(conn sqldb.Conn) (err error) {
			deleted, err = conn.Exec(ctx, stmt, sqlstore.Millis(req.Retention), req.BatchSize)
			return err
		})
		return deleted, err
	})
	done.Rows += n
	return err
}

// today returns the beginning of the day in UTC, by the store's clock.
func (s *engine[Tx]) today(ctx context.Context, ago time.Duration) (time.Time, error) {
	rows, err := s.core.DB.Query(ctx, s.core.SQL.Schedules.Time)
	now, _, err := sqldb.One(rows, err, sqldb.Scan[time.Time])
	return now.UTC().Add(-ago).Truncate(24 * time.Hour), err
}

func (s *engine[Tx]) partitions(ctx context.Context) ([]string, error) {
	rows, err := s.core.DB.Query(ctx, s.sql.Partitions, s.names.render("{outbox_archive}"))
	return sqldb.Collect(rows, err, sqldb.Scan[string])
}

// missingDays returns the days, today and some to come, that have no partition.
func (s *engine[Tx]) missingDays(ctx context.Context) ([]time.Time, error) {
	today, err := s.today(ctx, 0)
	if err != nil {
		return nil, err
	}
	existing, err := s.partitions(ctx)
	var missing []time.Time
	for i := range archiveDaysAhead + 1 {
		if day := today.AddDate(0, 0, i); !slices.Contains(existing, s.names.partition(day)) {
			missing = append(missing, day)
		}
	}
	return missing, err
}

// archiveDays returns for how many days, today among them, the archive should have a partition, and how many have one.
func (s *engine[Tx]) archiveDays(ctx context.Context) (ahead, ready int, err error) {
	missing, err := s.missingDays(ctx)
	return archiveDaysAhead + 1, archiveDaysAhead + 1 - len(missing), err
}

func (s *engine[Tx]) addPartitions(ctx context.Context, _ contract.MaintainRequest, done *contract.Maintained) error {
	missing, err := s.missingDays(ctx)
	if err != nil {
		return err
	}
	for _, day := range missing {
		err := s.asJanitor(ctx, func(conn sqldb.Conn) error { return s.addPartition(ctx, conn, day) })
		switch {
		case hasState(err, checkViolation):
			// Rows of the day are in the default partition already: they, and the rest of the
			// day, stay there.
		case err != nil:
			return err
		default:
			done.Added++
		}
	}
	return nil
}

// dropPartitions drops the partitions of the days that ended longer than the retention ago.
func (s *engine[Tx]) dropPartitions(ctx context.Context, req contract.MaintainRequest, done *contract.Maintained) error {
	first, err := s.today(ctx, req.Retention) // the first day to keep
	if err != nil {
		return err
	}
	existing, err := s.partitions(ctx)
	if err != nil {
		return err
	}
	for _, name := range existing {
		day, ok := s.names.dayOf(name)
		if !ok || !day.Before(first) {
			continue // the default partition, one made by somebody else, or too young
		}
		err := s.asJanitor(ctx, func(conn sqldb.Conn) error { return s.dropPartition(ctx, conn, day) })
		if err != nil {
			return err
		}
		done.Dropped++
	}
	return nil
}
