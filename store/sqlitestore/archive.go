package sqlitestore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// The purges delete a batch. Several relays may run them at once: there is one writer at a
// time. No index serves them, so each look walks the table from its oldest rows on.
const (
	purgeArchiveSQL = `
DELETE FROM {outbox_archive} WHERE rowid IN (
    SELECT rowid FROM {outbox_archive} WHERE published_at <= {now} - CAST($1 * 1000 AS INTEGER) LIMIT $2)`

	purgeIDsSQL = `
DELETE FROM {outbox_ids} WHERE id IN (
    SELECT id FROM {outbox_ids} WHERE enqueued_at <= {now} - CAST($1 * 1000 AS INTEGER) LIMIT $2)`
)

// MaintainArchive implements [contract.Source]. The archive has no partitions.
func (s *Store) MaintainArchive(ctx context.Context, req contract.MaintainRequest) (done contract.Maintained, err error) {
	if req.Retention <= 0 {
		return done, nil
	}
	for _, text := range []string{purgeArchiveSQL, purgeIDsSQL} {
		stmt := s.names.render(text)
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
