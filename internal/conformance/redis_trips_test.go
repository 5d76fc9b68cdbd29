package conformance

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill/inbox/lease"
)

// tripCounter counts what a client sends and waits for: a command, or a pipeline of many.
type tripCounter struct {
	n atomic.Int64
}

func (c *tripCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *tripCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *tripCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}

// TestRedisStore_RoundTrips: each call waits for the server once, whatever it finds, and for
// however many keys.
func TestRedisStore_RoundTrips(t *testing.T) {
	t.Parallel()
	client := newRedis(t)
	s, _ := newRedisStore(t, client)
	ctx := context.Background()
	held := begin(t, s, "k", time.Minute)
	reqs, leases := make([]lease.Request, lease.MaxBatch), make([]lease.Lease, lease.MaxBatch)
	for i := range reqs {
		reqs[i] = lease.Request{Key: fmt.Sprint("key ", i), TTL: time.Minute}
		leases[i] = lease.Lease{Key: reqs[i].Key, ID: "another"}
	}
	calls := map[string]func() error{
		"begin":       func() error { _, err := s.TryBegin(ctx, lease.Request{Key: "k", TTL: time.Minute}); return err },
		"begin all":   func() error { _, err := s.TryBeginAll(ctx, reqs); return err },
		"renew":       func() error { _, err := s.RenewLease(ctx, held, time.Minute); return err },
		"mark":        func() error { _, err := s.MarkProcessed(ctx, held); return err },
		"mark all":    func() error { _, err := s.MarkAllProcessed(ctx, leases); return err },
		"release":     func() error { _, err := s.ReleaseLease(ctx, held, lease.Release{}); return err },
		"read":        func() error { _, err := s.ReadLease(ctx, "k"); return err },
		"find":        func() error { _, _, err := s.FindResponse(ctx, "k"); return err },
		"save":        func() error { return s.SaveResponse(ctx, "k", nil, time.Minute) },
		"empty batch": func() error { _, err := s.TryBeginAll(ctx, nil); return err },
	}
	for name, call := range calls { // now the server has the scripts
		if err := call(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	counter := &tripCounter{}
	client.AddHook(counter)
	for name, call := range calls {
		want := int64(1)
		if name == "empty batch" {
			want = 0
		}
		before := counter.n.Load()
		if err := call(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if trips := counter.n.Load() - before; trips != want {
			t.Errorf("%s took %d round trips, want %d", name, trips, want)
		}
	}
}
