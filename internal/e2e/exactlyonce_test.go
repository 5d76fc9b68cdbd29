package e2e

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill/inspect"

	brokers "github.com/waybill-go/waybill/broker"
)

const exactOrders = 60

// exactWorld has orders in its outbox, and a cluster for an exactly-once relay.
func exactWorld(t *testing.T) (*world, brokerSettings) {
	t.Helper()
	w := plainWorld(t)
	s, b := kafkaCluster(t)
	s.TransactionalID = s.Name
	if _, err := b.(brokers.Topology).Apply(t.Context(), brokers.Wanted{Topics: []string{"orders"}}); err != nil {
		t.Fatal(err)
	}
	msgs := numbered("m", "orders", exactOrders)
	for i := range msgs {
		msgs[i].Key = msgs[i].ID[len(msgs[i].ID)-1:]
	}
	w.enqueue(t, msgs...)
	return w, s
}

// TestExactlyOnceRelayKilled kills two relays, one after the other, between the commit of a
// transaction and its settlement. The next one writes down what was committed and publishes the
// rest: each order is in the topic once.
//
//test:sessions
func TestExactlyOnceRelayKilled(t *testing.T) {
	t.Parallel()
	w, s := exactWorld(t)
	for range 2 {
		publisher := w.startChild(t, child{Role: "relay", Broker: s, Halt: atSettle})
		publisher.wait(t, atSettle)
		publisher.kill()
	}
	if n := len(s.committed(t, "orders")); n == 0 {
		t.Fatal("the killed relays have committed nothing")
	}
	if n := w.number(t, "SELECT count(*) FROM "+w.table("outbox")); n != exactOrders {
		t.Fatalf("%d messages are not settled, want all %d", n, exactOrders)
	}
	w.startRelay(t, s.connect(t).Publisher(), childLease)
	w.waitPublishedOnce(t, s)
}

// TestExactlyOnceRelayStopped stops a relay until another one has its lanes and has settled all.
// When it goes on, it publishes nothing a second time.
//
//test:sessions
func TestExactlyOnceRelayStopped(t *testing.T) {
	t.Parallel()
	w, s := exactWorld(t)
	stopped := w.startChild(t, child{Role: "relay", Broker: s, Halt: atSettle})
	stopped.wait(t, atSettle)
	stopped.stop(t)
	w.startRelay(t, s.connect(t).Publisher(), childLease)
	w.waitPublishedOnce(t, s)
	stopped.resume(t)
	stopped.wait(t, "lease_lost")
	w.waitPublishedOnce(t, s)
}

// waitPublishedOnce waits until all orders are settled, and reads the topic.
func (w *world) waitPublishedOnce(t *testing.T, s brokerSettings) {
	t.Helper()
	eventually(t, "all is settled", func() bool { return w.number(t, "SELECT count(*) FROM "+w.table("outbox")) == 0 })
	for _, m := range numbered("m", "orders", exactOrders) {
		w.waitStatus(t, m.ID, inspect.Published)
	}
	seen := s.committed(t, "orders")
	if len(seen) != exactOrders {
		t.Errorf("%d of %d orders are in the topic", len(seen), exactOrders)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s is in the topic %d times", id, n)
		}
	}
}

// committed reads all of a topic of Kafka that is committed, and counts the messages by id.
func (s brokerSettings) committed(t *testing.T, topic string) map[string]int {
	t.Helper()
	topic = s.Name + "." + topic
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(strings.TrimPrefix(s.URL, "kafka://"), ",")...),
		kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListCommittedOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	left := make(map[int32]int64)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	seen := make(map[string]int)
	for len(left) > 0 {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if !r.Attrs.IsControl() {
				seen[header(r, "ce_id")]++
			}
		})
	}
	return seen
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}
