package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/redisstore"
)

// redisTTL is how long a child's lease on Redis lasts. In life it is 30 s and more.
const redisTTL = time.Second

// openRedis opens the leases under a prefix.
func openRedis(url, prefix string) (*redisstore.Store, *redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	client := redis.NewClient(options)
	store, err := redisstore.New(client, redisstore.Config{Prefix: prefix})
	return store, client, err
}

// holdRedis leases a key on Redis, under the prefix Node, and renews the lease until it is lost.
// Then it does all that a holder may do, and says what came of it.
func (c child) holdRedis(ctx context.Context, _ *pgstore.Store[pgx.Tx]) error {
	store, _, err := openRedis(redisURL(), c.Node)
	if err != nil {
		return err
	}
	answer, err := store.TryBegin(ctx, lease.Request{Key: "k", Owner: "child", TTL: redisTTL})
	if err != nil {
		return err
	}
	l := lease.Lease{Key: "k", ID: answer.LeaseID, Token: answer.Token}
	for answer.Status == lease.Acquired {
		<-time.After(redisTTL / 3)
		if answer, err = store.RenewLease(ctx, l, redisTTL); err != nil {
			return err
		}
		fmt.Println("renewed:", answer.Status)
	}
	marked, err := store.MarkProcessed(ctx, l)
	if err != nil {
		return err
	}
	released, err := store.ReleaseLease(ctx, l, lease.Release{Uncounted: true})
	if err != nil {
		return err
	}
	fmt.Println("too late:", marked, released)
	return nil
}

// TestStoppedHolder_Redis (AS-43) stops a process past its lease on Redis. When it goes on, the key is
// somebody else's, and it changes nothing.
//
// Scale: the lease is 1 s instead of 30 s.
func TestStoppedHolder_Redis(t *testing.T) {
	t.Parallel()
	prefix := "test:" + waybill.NewID() + ":"
	store, client, err := openRedis(redisURL(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Del(context.Background(), prefix+"lease:{}k").Err(); err != nil {
			t.Error(err)
		}
		client.Close()
	})
	w := &world{dsn: postgresURL(), schema: "unused"} // the child does not ask PostgreSQL
	holder := w.startChild(t, child{Role: "redis holder", Node: prefix})
	holder.wait(t, "renewed: "+string(lease.Acquired))
	holder.stop(t)

	var mine lease.Answer
	eventually(t, "the lease of the stopped process ends", func() bool {
		if mine, err = store.TryBegin(t.Context(), lease.Request{Key: "k", Owner: "parent", TTL: time.Hour}); err != nil {
			t.Fatalf("Redis does not answer (%v); start it with: make services", err)
		}
		return mine.Status == lease.Acquired
	})
	if mine.Token != 2 || mine.Attempts != 2 {
		t.Errorf("TryBegin() = %+v, want token and attempt 2", mine)
	}
	before := readRedisLease(t, store)
	holder.resume(t)
	holder.wait(t, "renewed: "+string(lease.Lost))
	holder.wait(t, fmt.Sprint("too late: ", lease.Lost, " ", lease.Lost))
	if after := readRedisLease(t, store); after != before || after.Owner != "parent" {
		t.Errorf("record = %+v after the stopped process went on, want it as it was, %+v", after, before)
	}
	status, err := store.MarkProcessed(t.Context(), lease.Lease{Key: "k", ID: mine.LeaseID, Token: mine.Token})
	if err != nil || status != lease.Processed {
		t.Errorf("MarkProcessed() = %s, %v, want Processed", status, err)
	}
}

func readRedisLease(t *testing.T, s *redisstore.Store) lease.Record {
	t.Helper()
	rec, err := s.ReadLease(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return rec
}
