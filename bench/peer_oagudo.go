package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/oagudo/outbox"
)

var oagudoPeer = peer{
	module: "github.com/oagudo/outbox v1.0.1",
	note: "reads and deletes 1,000 at a time, poll interval 1 ms; one message at a time. A second reader publishes everything twice; " +
		"what has failed too often goes to a channel and its row is deleted",
	connections: 4,
	fill:        fillOagudo,
	drain:       drainOagudo,
}

const (
	// oagudoTableSQL is the table of the library's README.
	oagudoTableSQL = `
CREATE TABLE outbox (
    id UUID PRIMARY KEY,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    scheduled_at TIMESTAMP WITH TIME ZONE NOT NULL,
    metadata BYTEA,
    payload BYTEA NOT NULL,
    times_attempted INTEGER NOT NULL
);
CREATE INDEX ON outbox (created_at);
CREATE INDEX ON outbox (scheduled_at)`

	oagudoFillSQL = `
INSERT INTO outbox (id, created_at, scheduled_at, metadata, payload, times_attempted)
SELECT gen_random_uuid(), now() - interval '1 hour' + n * interval '1 microsecond', now() - interval '1 hour',
       convert_to('"k' || k || '"', 'UTF8'), $2, 0
  FROM unnest($1::int[]) WITH ORDINALITY AS i(k, n)`
)

func fillOagudo(ctx context.Context, w *world, n int) error {
	if err := w.exec(ctx, oagudoTableSQL); err != nil {
		return err
	}
	return w.exec(ctx, oagudoFillSQL, zipfKeys(n, w.keys), make([]byte, w.payload))
}

func drainOagudo(ctx context.Context, p *peerRun) error {
	db := stdlib.OpenDBFromPool(p.pool)
	defer func() { _ = db.Close() }() // the pool is closed after it
	reader := outbox.NewReader(outbox.NewDBContext(db, outbox.SQLDialectPostgres), oagudoPublisher{p},
		outbox.WithInterval(time.Millisecond), outbox.WithReadBatchSize(1000), outbox.WithDeleteBatchSize(1000),
		outbox.WithReadTimeout(peerTimeout), outbox.WithPublishTimeout(peerTimeout), outbox.WithDeleteTimeout(peerTimeout))
	reader.Start()
	var failure error
	select {
	case failure = <-reader.Errors():
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), peerTimeout)
	defer cancel()
	_ = reader.Stop(stop) // the backlog is empty, or the run has failed
	return failure
}

type oagudoPublisher struct{ *peerRun }

func (p oagudoPublisher) Publish(ctx context.Context, m *outbox.Message) error {
	var key string
	if err := json.Unmarshal(m.Metadata, &key); err != nil {
		return err
	}
	return p.publish(ctx, m.ID.String(), key, m.Payload)
}
