package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

var errBusy = errors.New("another relay maintains the archive")

// MaintainArchive implements [contract.Source]. The archive has no partitions.
func (s *Store) MaintainArchive(ctx context.Context, req contract.MaintainRequest) (done contract.Maintained, err error) {
	if req.Retention <= 0 {
		return done, nil
	}
	for _, stmt := range []string{s.sql.PurgeArchive, s.sql.PurgeIDs} {
		n, err := sqlstore.PurgeAll(ctx, req.BatchSize, func() (int64, error) { return s.purgeBatch(ctx, stmt, req) })
		done.Rows += n
		if errors.Is(err, errBusy) {
			done.Busy = true
			return done, nil
		}
		if err != nil {
			return done, fmt.Errorf("maintain archive: %w", err)
		}
	}
	return done, nil
}

// purgeBatch works under a lock that only one relay holds at once.
func (s *Store) purgeBatch(ctx context.Context, stmt string, req contract.MaintainRequest) (n int64, err error) {
	err = s.core.InTx(ctx, func(_ *sql.Tx, conn sqldb.Conn) error {
		rows, err := conn.Query(ctx, s.sql.LockArchive)
		mine, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
		if err != nil {
			return err
		}
		if !mine {
			return errBusy
		}
		n, err = conn.Exec(ctx, stmt, sqlstore.Millis(req.Retention), req.BatchSize)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
