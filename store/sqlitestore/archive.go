package sqlitestore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// MaintainArchive implements [contract.Source]. The archive has no partitions.
func (s *Store) MaintainArchive(ctx context.Context, req contract.MaintainRequest) (done contract.Maintained, err error) {
	if req.Retention <= 0 {
		return done, nil
	}
	for _, stmt := range []string{s.sql.PurgeArchive, s.sql.PurgeIDs} {
		n, err := sqlstore.PurgeAll(ctx, req.BatchSize, func() (int64, error) {
			return s.core.DB.Exec(ctx, stmt, sqlstore.Millis(req.Retention), req.BatchSize)
		})
		done.Rows += n
		if err != nil {
			return done, s.core.Kind(fmt.Errorf("maintain archive: %w", err))
		}
	}
	return done, nil
}
