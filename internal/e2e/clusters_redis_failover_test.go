package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/redisbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/store/redisstore"
)

// open opens a broker on these servers.
func (r *redisServers) open(cfg redisbroker.Config) *redisbroker.Broker {
	r.t.Helper()
	b, err := redisbroker.Open(r.t.Context(), cfg)
	must(r.t, err)
	r.t.Cleanup(func() { b.Close() })
	return b
}

// alone makes a master one that no replica copies, and returns its port.
func (r *redisServers) alone() string {
	r.t.Helper()
	port := r.mastersNow()[0]
	must(r.t, r.ask(port, "ACL", "SETUSER", "default", "-psync", "-sync").Err())
	must(r.t, r.ask(port, "CLIENT", "KILL", "TYPE", "replica").Err())
	return port
}

// failOver kills a master and waits for its successor.
func (r *redisServers) failOver(port string) {
	r.t.Helper()
	before := r.mastersNow()
	r.nodes[port].Kill()
	r.awaitFailover(before)
}

// publishIDs sends messages of a topic, whose ids are their payloads, and returns the first error.
func publishIDs(t *testing.T, b *redisbroker.Broker, topic string, ids ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), unreached)
	defer cancel()
	var msgs []contract.Outgoing
	for _, id := range ids {
		m := &waybill.Message{ID: id, Topic: topic, Source: "test"}
		m.Complete()
		msgs = append(msgs, contract.Outgoing{Message: m, DedupID: id})
	}
	for _, err := range b.Publisher().Send(ctx, msgs)() {
		if err != nil {
			return err
		}
	}
	return nil
}

// received are the ids of deliveries.
type received struct {
	mu   sync.Mutex
	list []string
}

func (r *received) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(r.list)))
}

// receiveIDs runs a subscription that acknowledges, or does not, what it notes.
func receiveIDs(t *testing.T, b *redisbroker.Broker, group, topic string, ack bool) (*received, func()) {
	t.Helper()
	got := new(received)
	sub := b.Subscriber(consumer.Subscription{Group: group, Topics: []string{topic}})
	return got, run(t, t.Context(), func(ctx context.Context) error {
		return sub.Subscribe(ctx, 100, func(d contract.Delivery) {
			m, err := d.Message()
			if err == nil && ack {
				err = d.Ack(ctx)
			}
			if err != nil {
				t.Error(err)
				return
			}
			got.mu.Lock()
			defer got.mu.Unlock()
			got.list = append(got.list, m.ID)
		})
	})
}

// await waits until ids, in order, are what was received.
func (r *received) await(t *testing.T, what string, ids ...string) {
	t.Helper()
	eventually(t, what, func() bool { return slices.Equal(r.ids(), ids) })
}

// TestCluster_RedisGroups has a failover meet a group with pending deliveries, one that the new master does not know, and a
// stream that it does not know.
//
//test:cluster
func TestCluster_RedisGroups(t *testing.T) {
	r := newRedisSentinel(t)
	cfg := r.settings(0).redis()
	b := r.open(cfg)
	ids := []string{"1", "2", "3", "4", "5"}
	dead, stop := receiveIDs(t, b, "pending", "known", false)
	eventually(t, "the stream is there", func() bool { return publishIDs(t, b, "known", ids...) == nil })
	dead.await(t, "all are pending", ids...)
	stop()
	must(t, r.ask(r.mastersNow()[0], "WAIT", 2, 0).Err())

	port := r.alone()
	young, stopYoung := receiveIDs(t, b, "young", "known", true)
	lost, stopLost := receiveIDs(t, b, "young", "unknown", false)
	young.await(t, "a new group receives what the stream holds", ids...)
	eventually(t, "the stream is there", func() bool { return publishIDs(t, b, "unknown", "lost") == nil })
	lost.await(t, "it is received", "lost")
	young.mu.Lock()
	young.list = nil
	young.mu.Unlock()
	r.failOver(port)

	young.await(t, "the group is made again, and receives what the stream holds", ids...)
	eventually(t, "the stream is made again", func() bool { return publishIDs(t, b, "unknown", "next") == nil })
	lost.await(t, "what comes after is received", "lost", "next")
	next, stopNext := receiveIDs(t, b, "pending", "known", true)
	next.await(t, "what was pending is taken over on the new master", ids...)
	stopYoung()
	stopLost()
	stopNext()
}

// TestCluster_RedisOldMaster wakes a master at the moment when another one takes its place. It takes writes until it is notified,
// and loses them. With Replicas for all replicas none of them counts as published; with one of two, some do: the other one
// still copies the old master.
//
//test:cluster
func TestCluster_RedisOldMaster(t *testing.T) {
	r := newRedisSentinel(t)
	settings := r.settings(0)
	r.declare(t, settings)
	old := r.mastersNow()[0]
	cfg := settings.redis()
	cfg.URL = "redis://127.0.0.1:" + old
	var publishers []*redisbroker.Broker // by their Replicas
	for cfg.Replicas = range 3 {
		publishers = append(publishers, r.open(cfg))
	}
	must(t, publishIDs(t, publishers[2], "orders", "before"))

	r.nodes[old].Pause()
	r.awaitFailover([]string{old})
	r.nodes[old].Back()
	demoted, working := make(chan struct{}), sync.WaitGroup{}
	taken := make([]int, len(publishers))
	for replicas, b := range publishers {
		working.Go(func() { taken[replicas] = publishUntil(t, b, demoted) })
	}
	eventually(t, "the old master is notified", func() bool {
		now, err := r.role(old)
		return err == nil && now.master != ""
	})
	close(demoted)
	working.Wait()
	r.mend()
	t.Logf("the old master took, and lost, by Replicas: %v", taken)
	if taken[0] == 0 || taken[2] > 0 {
		t.Errorf("messages that the old master took by Replicas: %v, want some without, and none with both", taken)
	}
	client := r.client()
	defer client.Close()
	entries, err := client.XRange(t.Context(), topicStream(settings, "orders"), "-", "+").Result()
	if err != nil || len(entries) != 1 || entries[0].Values["ce_id"] != "before" {
		t.Errorf("the stream holds %v, %v, want what was published before", entries, err)
	}
}

// publishUntil publishes one message after the other and returns how many were accepted. The others are unavailable.
func publishUntil(t *testing.T, b *redisbroker.Broker, end <-chan struct{}) (taken int) {
	for {
		select {
		case <-end:
			return taken
		default:
		}
		switch err := publishIDs(t, b, "orders", waybill.NewID()); {
		case err == nil:
			taken++
		case !waybill.IsUnavailable(err):
			t.Errorf("the old master's answer: %v, want unavailable", err)
		}
	}
}

// TestCluster_RedisLeases fails over again and again. What replicas had received of leases and marks holds; the rest is
// forgotten, as docs/guarantees.md says.
//
//test:cluster
func TestCluster_RedisLeases(t *testing.T) {
	r := newRedisSentinel(t)
	client := r.client()
	defer client.Close()
	store, err := redisstore.New(client, redisstore.Config{Prefix: "leases:"})
	must(t, err)
	held := r.begin(store, "held")
	r.mark(store, r.begin(store, "done"))
	for n := range clusterRounds {
		must(t, r.waitReplicas(client))
		port := r.alone()
		young, late := r.begin(store, fmt.Sprint("young", n)), r.begin(store, fmt.Sprint("late", n))
		r.mark(store, late)
		r.failOver(port)

		var renewed lease.Answer
		eventually(t, "a lease is renewed", func() bool {
			renewed, err = store.RenewLease(t.Context(), held, time.Hour)
			return err == nil
		})
		if renewed.Status != lease.Acquired || renewed.Token != held.Token {
			t.Errorf("RenewLease() of a lease that the replicas knew = %+v, want it held under token %d", renewed, held.Token)
		}
		if got, err := store.TryBegin(t.Context(), leaseOf("done")); err != nil || got.Status != lease.Processed {
			t.Errorf("TryBegin() of a key that was marked = %+v, %v, want Processed", got, err)
		}
		for _, forgotten := range []lease.Lease{young, late} {
			if got := r.begin(store, forgotten.Key); got.Token != 1 {
				t.Errorf("%s has token %d, want 1: the new master does not know the key", got.Key, got.Token)
			}
			if got, err := store.MarkProcessed(t.Context(), forgotten); err != nil || got != lease.Lost {
				t.Errorf("MarkProcessed() of the forgotten lease = %v, %v, want LeaseLost", got, err)
			}
		}
		r.mend()
	}
}

func leaseOf(key string) lease.Request {
	return lease.Request{Key: key, Owner: "test", TTL: time.Hour}
}

// begin acquires a key.
func (r *redisServers) begin(s *redisstore.Store, key string) lease.Lease {
	r.t.Helper()
	answer, err := s.TryBegin(r.t.Context(), leaseOf(key))
	if err != nil || answer.Status != lease.Acquired {
		r.t.Fatalf("TryBegin(%s) = %+v, %v, want Acquired", key, answer, err)
	}
	return lease.Lease{Key: key, ID: answer.LeaseID, Token: answer.Token}
}

func (r *redisServers) mark(s *redisstore.Store, l lease.Lease) {
	r.t.Helper()
	if got, err := s.MarkProcessed(r.t.Context(), l); err != nil || got != lease.Processed {
		r.t.Fatalf("MarkProcessed(%s) = %v, %v", l.Key, got, err)
	}
}

// waitReplicas returns when both replicas have what was written.
func (r *redisServers) waitReplicas(client redis.UniversalClient) error {
	pipe := client.Pipeline()
	pipe.Set(r.t.Context(), "mark", "", 0)
	pipe.Do(r.t.Context(), "WAIT", 2, 0)
	_, err := pipe.Exec(r.t.Context())
	return err
}
