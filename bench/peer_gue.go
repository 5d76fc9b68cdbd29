package main

import (
	"context"
	"time"

	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"
)

var guePeer = peer{
	module: "github.com/vgarvardt/gue/v5 v5.8.0",
	note: "jobs that publish, poll interval 1 ms, as many workers as named. A job queue: no order of any kind; " +
		"a transaction stays open while a job runs; no dead letters",
	connections: 18,
	fill:        fillGue,
	drain:       drainGue,
}

const (
	// gueTableSQL is the library's schema.sql.
	gueTableSQL = `
CREATE TABLE gue_jobs (
    job_id      TEXT        NOT NULL PRIMARY KEY,
    priority    SMALLINT    NOT NULL,
    run_at      TIMESTAMPTZ NOT NULL,
    job_type    TEXT        NOT NULL,
    args        BYTEA       NOT NULL,
    error_count INTEGER     NOT NULL DEFAULT 0,
    last_error  TEXT,
    queue       TEXT        NOT NULL,
    created_at  TIMESTAMPTZ NOT NULL,
    updated_at  TIMESTAMPTZ NOT NULL
);
CREATE INDEX ON gue_jobs (queue, run_at, priority)`

	// gueFillSQL makes job ids that sort by time, as the library does.
	gueFillSQL = `
INSERT INTO gue_jobs (job_id, priority, run_at, job_type, args, queue, created_at, updated_at)
SELECT '01' || lpad(n::text, 24, '0'), 0, now() - interval '1 hour', 'publish', $2, '', now(), now() FROM generate_series(1, $1::int) AS n`
)

func fillGue(ctx context.Context, w *world, n int) error {
	if err := w.exec(ctx, gueTableSQL); err != nil {
		return err
	}
	return w.exec(ctx, gueFillSQL, n, make([]byte, w.payload))
}

func drainGue(ctx context.Context, p *peerRun) error {
	c, err := gue.NewClient(pgxv5.NewConnPool(p.pool))
	if err != nil {
		return err
	}
	work := gue.WorkMap{"publish": func(ctx context.Context, j *gue.Job) error {
		return p.publish(ctx, j.ID.String(), "k", j.Args)
	}}
	workers, err := gue.NewWorkerPool(c, work, p.Workers, gue.WithPoolPollInterval(time.Millisecond))
	if err != nil {
		return err
	}
	return workers.Run(ctx)
}
