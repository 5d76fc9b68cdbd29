package pgstore

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/outbox"
)

const (
	messageStatesSQL = `
SELECT id, status, topic, destination, type, source, tenant, key, attempts, error, enqueued_at, due_at, published_at
  FROM {messages} WHERE id = $1 ORDER BY enqueued_at, destination`

	outboxStatsSQL = `
SELECT topic, status, count(*), extract(epoch FROM {clock}() - min(enqueued_at))::float8
  FROM {messages} GROUP BY topic, status ORDER BY topic, status`
)

// MessageStates implements [outbox.Inspector].
func (s *Store[Tx]) MessageStates(ctx context.Context, id string) ([]outbox.State, error) {
	rows, err := s.db.Query(ctx, s.sql.messageStates, id)
	states, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (v outbox.State, err error) {
		err = r.Scan(&v.ID, &v.Status, &v.Topic, &v.Destination, &v.Type, &v.Source, &v.Tenant, &v.Key,
			&v.Attempts, &v.Error, &v.EnqueuedAt, &v.DueAt, &v.PublishedAt)
		return v, err
	})
	return states, classify(err)
}

// OutboxStats implements [outbox.Inspector]. It reads whole tables: not for every second.
func (s *Store[Tx]) OutboxStats(ctx context.Context) ([]outbox.Stats, error) {
	rows, err := s.db.Query(ctx, s.sql.outboxStats)
	stats, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (v outbox.Stats, err error) {
		var age float64
		err = r.Scan(&v.Topic, &v.Status, &v.Count, &age)
		v.Oldest = time.Duration(age * float64(time.Second))
		return v, err
	})
	return stats, classify(err)
}
