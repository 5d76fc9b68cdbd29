package main

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
)

var watermillPeer = peer{
	module: "github.com/ThreeDotsLabs/watermill v1.5.1 with watermill-sql/v4 v4.1.2",
	note: "forwarder, DefaultPostgreSQLSchema with SubscribeBatchSize 1,000; one message at a time, one forwarder at work; " +
		"a message waits until every older transaction of the whole server has ended. " +
		"No dead letters and no backoff unless middleware adds them; what was published stays in the table",
	connections: 8,
	fill:        fillWatermill,
	drain:       drainWatermill,
}

const forwarderTopic = "forwarder_topic"

// watermillFillSQL writes what the forwarder's publisher writes: the message in an envelope.
const watermillFillSQL = `
INSERT INTO watermill_forwarder_topic (uuid, payload, metadata, transaction_id)
SELECT gen_random_uuid()::text,
       json_build_object('destination_topic', '` + topic + `', 'uuid', gen_random_uuid()::text,
                         'payload', replace(encode($2, 'base64'), E'\n', ''), 'metadata', json_build_object('key', 'k' || k)),
       '{}', pg_current_xact_id()
  FROM unnest($1::int[]) WITH ORDINALITY AS i(k, n) ORDER BY n`

func watermillSubscriber(pool *pgxpool.Pool) (*sql.Subscriber, error) {
	return sql.NewSubscriber(sql.BeginnerFromPgx(pool), sql.SubscriberConfig{
		PollInterval:     time.Millisecond,
		SchemaAdapter:    sql.DefaultPostgreSQLSchema{SubscribeBatchSize: 1000},
		OffsetsAdapter:   sql.DefaultPostgreSQLOffsetsAdapter{},
		InitializeSchema: true,
	}, watermill.NopLogger{})
}

func fillWatermill(ctx context.Context, w *world, n int) error {
	s, err := watermillSubscriber(w.pool)
	if err != nil {
		return err
	}
	if err := s.SubscribeInitialize(forwarderTopic); err != nil {
		return err
	}
	return w.exec(ctx, watermillFillSQL, zipfKeys(n, w.keys), make([]byte, w.payload))
}

func drainWatermill(ctx context.Context, p *peerRun) error {
	s, err := watermillSubscriber(p.pool)
	if err != nil {
		return err
	}
	f, err := forwarder.NewForwarder(s, watermillPublisher{p}, watermill.NopLogger{}, forwarder.Config{ForwarderTopic: forwarderTopic})
	if err != nil {
		return err
	}
	return f.Run(ctx)
}

type watermillPublisher struct{ *peerRun }

func (p watermillPublisher) Publish(_ string, msgs ...*message.Message) error {
	for _, m := range msgs {
		if err := p.publish(m.Context(), m.UUID, m.Metadata["key"], m.Payload); err != nil {
			return err
		}
	}
	return nil
}

func (watermillPublisher) Close() error { return nil }
