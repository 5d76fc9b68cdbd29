package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

var riverPeer = peer{
	module: "github.com/riverqueue/river v0.51.0",
	note: "jobs that publish, inserted with InsertManyFast, FetchCooldown 1 ms, as many workers as named. " +
		"A job queue: no order of any kind; done jobs stay for a day",
	connections: 10,
	fill:        fillRiver,
	drain:       drainRiver,
}

// publishArgs are a job that publishes a message.
type publishArgs struct {
	ID      string `json:"id"`
	Key     string `json:"key"`
	Payload []byte `json:"payload"`
}

func (publishArgs) Kind() string { return "publish" }

func fillRiver(ctx context.Context, w *world, n int) error {
	m, err := rivermigrate.New(riverpgxv5.New(w.pool), nil)
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	c, err := riverClient(w.pool, nil, 0)
	if err != nil {
		return err
	}
	keys, payload := zipfKeys(n, w.keys), make([]byte, w.payload)
	for len(keys) > 0 {
		part := keys[:min(bulkSize, len(keys))]
		keys = keys[len(part):]
		jobs := make([]river.InsertManyParams, len(part))
		for i, k := range part {
			jobs[i].Args = publishArgs{ID: uuid.NewString(), Key: fmt.Sprintf("k%d", k), Payload: payload}
		}
		if _, err := c.InsertManyFast(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

// riverClient makes a client that works, or one that only inserts if there are no workers.
func riverClient(pool *pgxpool.Pool, workers *river.Workers, number int) (*river.Client[pgx.Tx], error) {
	cfg := &river.Config{Logger: slog.New(slog.DiscardHandler)}
	if workers != nil {
		cfg.Workers = workers
		cfg.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: number}}
		cfg.FetchCooldown, cfg.FetchPollInterval = time.Millisecond, 10*time.Millisecond
	}
	return river.NewClient(riverpgxv5.New(pool), cfg)
}

func drainRiver(ctx context.Context, p *peerRun) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{peerRun: p})
	c, err := riverClient(p.pool, workers, p.Workers)
	if err != nil {
		return err
	}
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), peerTimeout)
	defer cancel()
	return c.Stop(stop)
}

type riverWorker struct {
	river.WorkerDefaults[publishArgs]
	*peerRun
}

func (w *riverWorker) Work(ctx context.Context, j *river.Job[publishArgs]) error {
	return w.publish(ctx, j.Args.ID, j.Args.Key, j.Args.Payload)
}
