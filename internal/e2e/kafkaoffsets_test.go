package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	brokers "github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/kafkabroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/store/pgstore"
)

// haltingOffsets is haltingSubscriber for one that keeps offsets.
type haltingOffsets struct {
	contract.OffsetSubscriber
	halt func()
}

func (s haltingOffsets) SubscribeAt(ctx context.Context, prefetch int, take func(context.Context, contract.PartitionClaim) (contract.Progress, error), deliver func(contract.PlacedDelivery)) error {
	return s.OffsetSubscriber.SubscribeAt(ctx, prefetch, take, func(d contract.PlacedDelivery) { deliver(haltingPlaced{d, s.halt}) })
}

type haltingPlaced struct {
	contract.PlacedDelivery
	halt func()
}

func (d haltingPlaced) Ack(ctx context.Context) error {
	d.halt()
	return d.PlacedDelivery.Ack(ctx)
}

// keepOffsets is a consumer with its offsets in the database.
func (c child) keepOffsets(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	b, err := c.Broker.open(ctx)
	if err != nil {
		return err
	}
	w := &world{schema: c.Schema}
	s := from(b, consumer.Subscription{Group: c.Broker.group("billing"), Topics: []string{"orders"}})
	s.sub = haltingOffsets{s.sub.(contract.OffsetSubscriber), func() { c.halt(atBeforeAck) }}
	cons, err := consumer.New(s, s.of, contract.Inbox[pgx.Tx](store), func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		if err := w.addEffect(ctx, tx, "billing", m.ID); err != nil {
			return err
		}
		c.halt(atBeforeCommit)
		return nil
	}, quickConsumer(consumer.Config{Offsets: c.Offsets, Observer: announcer{}}))
	if err != nil {
		return err
	}
	return cons.Run(ctx)
}

// gatedBox lets nothing begin until it is opened.
type gatedBox struct {
	*pgstore.Store[pgx.Tx]
	open    chan struct{}
	waiting chan inbox.Position
	results chan result
}

// result is what one call of a gatedBox has come to.
type result struct {
	at  inbox.Position
	err error
}

func (w *world) gated() *gatedBox {
	return &gatedBox{w.store, make(chan struct{}), make(chan inbox.Position, 1000), make(chan result, 1000)}
}

func (b *gatedBox) ProcessOnce(ctx context.Context, rec inbox.Record, fn func(context.Context, pgx.Tx) error) (inbox.Outcome, error) {
	b.waiting <- *rec.At
	select {
	case <-b.open:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	outcome, err := b.Store.ProcessOnce(ctx, rec, fn)
	if err == nil && outcome != inbox.Processed {
		err = errors.New(outcome.String())
	}
	b.results <- result{*rec.At, err}
	return outcome, err
}

// publishInTransaction does it as an exactly-once relay does: each message stands at one offset.
func (s brokerSettings) publishInTransaction(t *testing.T, msgs []waybill.Message) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.TrimPrefix(s.URL, "kafka://")), kgo.TransactionalID(s.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	err = client.BeginTransaction()
	for _, m := range msgs {
		err = errors.Join(err, client.ProduceSync(t.Context(), &kgo.Record{
			Topic: s.Name + ".orders", Key: []byte(m.ID), Value: m.Payload, Headers: []kgo.RecordHeader{
				{Key: "ce_specversion", Value: []byte("1.0")}, {Key: "ce_id", Value: []byte(m.ID)},
				{Key: "ce_source", Value: []byte("shop")}, {Key: "ce_type", Value: []byte("order.created")},
			},
		}).FirstErr())
	}
	if err = errors.Join(err, client.EndTransaction(t.Context(), kgo.TryCommit)); err != nil {
		t.Fatal(err)
	}
}

// behind makes all connections go through a proxy.
func behind(proxy *faultproxy.Proxy, cfg kafkabroker.Config) kafkabroker.Config {
	cfg.Options = append(cfg.Options, kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, proxy.Addr())
	}))
	return cfg
}

// TestKafkaOffsets is a group with its offsets in the database: one consumer is killed before its
// commit, one behind it, one is cut off and goes on when another has taken its partitions, and one
// joins. Each message has its effect once, and each partition one row.
//
//test:sessions
func TestKafkaOffsets(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]consumer.OffsetMode{
		"in addition to the inbox": consumer.OffsetsBesideInbox, "behind an exactly-once relay": consumer.OffsetsBehindExactlyOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tellKafkaOffsets(t, mode)
		})
	}
}

func tellKafkaOffsets(t *testing.T, mode consumer.OffsetMode) {
	const partitions, orders = 3, 60
	w := plainWorld(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s := newBroker(t, "kafka")
	s.URL = "kafka://" + cluster.ListenAddrs()[0]
	b, err := kafkabroker.Open(t.Context(), s.kafka())
	opened(t, b, err)
	sub := consumer.Subscription{Group: s.group("billing"), Topics: []string{"orders"}}
	if _, err := b.Apply(t.Context(), brokers.Wanted{Topics: sub.Topics}); err != nil {
		t.Fatal(err)
	}
	cfg := quickConsumer(consumer.Config{Offsets: mode})
	start := func(from *kafkabroker.Broker, box contract.Inbox[pgx.Tx]) (stop func()) {
		t.Helper()
		c, err := consumer.New(from, sub, box, w.effectHandler("billing"), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return run(t, t.Context(), c.Run)
	}
	rows := func() int { return w.number(t, "SELECT count(*) FROM "+w.table("consumer_offsets")) }

	// Before anything is published: no inbox has been alone with it.
	stop := start(b, w.store)
	eventually(t, "all partitions are taken", func() bool { return rows() == partitions })
	stop()
	msgs := numbered("m", "orders", 2*orders)
	s.publishInTransaction(t, msgs[:orders])

	for _, point := range []string{atBeforeCommit, atBeforeAck} {
		victim := w.startChild(t, child{Role: "keeper of offsets", Broker: s, Halt: point, Offsets: mode})
		victim.wait(t, point)
		victim.kill()
	}
	if n := w.number(t, "SELECT count(*) FROM "+w.table("effects")); n == 0 {
		t.Fatal("the killed consumer has committed nothing")
	}

	proxy, err := faultproxy.New(t.Context(), cluster.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	far, err := kafkabroker.Open(t.Context(), behind(proxy, s.kafka()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() }) // it is cut off
	zombie, heir := w.gated(), w.gated()
	start(far, zombie)
	at := <-zombie.waiting
	proxy.Refuse(true)
	proxy.Cut()
	start(b, heir)
	eventually(t, "the heir has taken the partition", func() bool {
		p, _, err := w.store.ReadProgress(t.Context(), at.Partition)
		return err == nil && p.Member != at.Member && p.Generation > at.Generation
	})
	close(zombie.open)
	of := <-zombie.results
	for of.at.Partition != at.Partition { // one that the heir may not have taken yet
		of = <-zombie.results
	}
	if !errors.Is(of.err, contract.ErrFenced) {
		t.Errorf("ProcessOnce() of a member that has lost its partition = %v, want ErrFenced", of.err)
	}
	eventually(t, "the heir has taken all partitions", func() bool {
		later := fmt.Sprintf(" WHERE generation > %d", at.Generation)
		return w.number(t, "SELECT count(*) FROM "+w.table("consumer_offsets")+later) == partitions
	})
	close(heir.open)
	s.publishInTransaction(t, msgs[orders:])
	start(b, w.store) // a rebalance while messages flow

	for _, m := range msgs {
		w.waitEffects(t, "billing", m.ID, 1)
	}
	if n := w.number(t, "SELECT count(*) FROM "+w.table("effects")); n != 2*orders {
		t.Errorf("%d effects of %d orders", n, 2*orders)
	}
	if n := rows(); n != partitions {
		t.Errorf("%d rows of offsets, want one for each of %d partitions", n, partitions)
	}
	wantRecords := map[consumer.OffsetMode]int{consumer.OffsetsBesideInbox: 2 * orders}[mode]
	if n := w.number(t, "SELECT count(*) FROM "+w.table("inbox")); n != wantRecords {
		t.Errorf("%d records of the inbox, want %d", n, wantRecords)
	}
}
