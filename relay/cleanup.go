package relay

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
)

// cleanupRetry is how soon a clean-up that met a lock is repeated: each try may block settlements
// for as long as the store waits for that lock.
const cleanupRetry = time.Minute

// maintainArchive keeps the archive within its retention, with room for the next days.
func (r *Relay) maintainArchive(ctx context.Context) {
	l := &loop.Loop{Name: "relay " + r.cfg.Node + " archive", Kind: "relay archive", Observer: r.cfg.Observer}
	l.Run(ctx, r.maintainRound)
}

func (r *Relay) maintainRound(ctx context.Context) error {
	began := time.Now()
	done, err := call(ctx, &patience{limit: maintainTimeout}, func(ctx context.Context) (contract.Maintained, error) {
		return r.src.MaintainArchive(ctx, r.cfg.maintenance())
	})
	wait := r.cfg.CleanupInterval
	var locked error
	if waybill.KindOf(err) == waybill.Conflict {
		locked, err, wait = err, nil, min(wait, cleanupRetry)
	}
	r.observeMaintained(ctx, done, time.Since(began), locked)
	if err == nil {
		loop.Sleep(ctx, wait)
	}
	return err
}

// maintenance returns the request that maintains the archive. What an earlier setting has kept is
// removed in time, even if nothing is kept now.
func (c *Config) maintenance() contract.MaintainRequest {
	req := contract.MaintainRequest{Retention: c.Retention, BatchSize: c.CleanupBatchSize}
	switch {
	case c.DisableCleanup:
		req.Retention = 0
	case c.Retention == KeepNothing:
		req.Retention = defaultRetention
	}
	return req
}

func (r *Relay) observeMaintained(ctx context.Context, done contract.Maintained, took time.Duration, locked error) {
	for _, e := range []observe.Event{
		{Op: observe.OpAddPartitions, Count: done.Added},
		{Op: observe.OpDropPartitions, Count: done.Dropped},
		{Op: observe.OpCleanup, Count: int(done.Rows), Duration: took, Err: locked},
	} {
		if e.Count > 0 || e.Err != nil {
			r.observe(ctx, e)
		}
	}
}
