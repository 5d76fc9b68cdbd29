package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/relay"
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

// MaintainArchive implements [relay.Source]. The archive has no partitions.
func (s *Store) MaintainArchive(ctx context.Context, req relay.MaintainRequest) (done relay.Maintained, err error) {
	if req.Retention <= 0 {
		return done, nil
	}
	for _, stmt := range []string{purgeArchiveSQL, purgeIDsSQL} {
		n, err := s.purge(ctx, s.names.render(stmt), req)
		done.Rows += n
		if err != nil {
			return done, s.core.Kind(fmt.Errorf("maintain archive: %w", err))
		}
	}
	return done, nil
}

// purge runs a statement that deletes a batch until there is nothing left to delete, and
// returns how many rows went. It leaves others at least half of the time.
func (s *Store) purge(ctx context.Context, stmt string, req relay.MaintainRequest) (total int64, err error) {
	for {
		began := time.Now()
		n, err := s.core.DB.Exec(ctx, stmt, sqlstore.Millis(req.Retention), req.BatchSize)
		total += n
		if err != nil || n == 0 || n < int64(req.BatchSize) {
			return total, err
		}
		loop.Sleep(ctx, time.Since(began))
	}
}
