package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/kafkabroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/memstore"
)

// kafkaSubscribeAt is kafkaSubscribe from where take says.
func kafkaSubscribeAt(t *testing.T, b *kafkabroker.Broker, take func(context.Context, contract.PartitionClaim) (contract.Progress, error)) *kafkaGroup {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g := &kafkaGroup{t: t, got: make(chan contract.Delivery, 10_000)}
	ended := make(chan error, 1)
	sub := b.Subscriber(consumer.Subscription{Group: "g-t", Topics: []string{"t"}}).(contract.OffsetSubscriber)
	go func() { ended <- sub.SubscribeAt(ctx, 10, take, func(d contract.PlacedDelivery) { g.got <- d }) }()
	g.stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() { g.stop() })
	return g
}

// from takes partitions over at an offset.
func from(next int64) func(context.Context, contract.PartitionClaim) (contract.Progress, error) {
	return func(_ context.Context, c contract.PartitionClaim) (contract.Progress, error) {
		return contract.Progress{Next: next, Holder: c.Holder}, nil
	}
}

// TestKafkaSubscribeAt_OneByOne: of a partition nothing is delivered next to a message that is not
// settled, and nothing before one that is to be retried.
func TestKafkaSubscribeAt_OneByOne(t *testing.T) {
	t.Parallel()
	const watched = 300 * time.Millisecond
	b := kafkaOpen(t, kafkaConfig(kafkaURL(t)))
	kafkaSend(t, b, kafkaMessages("t", 4, manyKeys))
	g := kafkaSubscribeAt(t, b, from(0))
	for try := range 3 {
		d := g.next()
		if payload(d) != "1" || !d.Redelivered() {
			t.Fatalf("try %d: payload %q, Redelivered() = %v, want 1, which may have been delivered before", try, payload(d), d.Redelivered())
		}
		if try == 2 {
			select {
			case other := <-g.got:
				t.Fatalf("message %s was delivered next to message 1", payload(other))
			case <-time.After(watched):
			}
			kafkaAck(t, d)
		} else if err := d.Retry(t.Context(), watched/10); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		d := g.next()
		if place := d.(contract.PlacedDelivery).Place(); payload(d) != fmt.Sprint(i+2) || d.Redelivered() || place.Offset != int64(i+1) {
			t.Errorf("payload %q at %d, Redelivered() = %v, want message %d, for the first time", payload(d), place.Offset, d.Redelivered(), i+2)
		}
		kafkaAck(t, d)
	}
}

// TestKafkaSubscribeAt_Begins where take says, whatever the group has committed.
func TestKafkaSubscribeAt_Begins(t *testing.T) {
	t.Parallel()
	cfg := kafkaConfig(kafkaURL(t))
	b := kafkaOpen(t, cfg)
	kafkaSend(t, b, kafkaMessages("t", 4, oneKey))
	claims := make(chan contract.PartitionClaim, 10)
	noting := func(next int64) func(context.Context, contract.PartitionClaim) (contract.Progress, error) {
		return func(ctx context.Context, c contract.PartitionClaim) (contract.Progress, error) {
			if is, err := c.Current(ctx); !is || err != nil {
				t.Errorf("Current() = %v, %v of the group's member", is, err)
			}
			claims <- c
			return contract.Progress{Next: next, RecordedBelow: 3, Holder: c.Holder}, nil
		}
	}
	first := kafkaSubscribeAt(t, b, noting(1))
	for i, old := range []bool{true, true, false} { // 3 is at offset 2
		d := first.next()
		place := d.(contract.PlacedDelivery).Place()
		if payload(d) != fmt.Sprint(i+2) || d.Redelivered() != old || place.Transactional {
			t.Errorf("payload %q, Redelivered() = %v, %+v, want %d, %v", payload(d), d.Redelivered(), place, i+2, old)
		}
		kafkaAck(t, d)
	}
	claim := <-claims
	want := inbox.Partition{Group: "g-t", Topic: cfg.TopicPrefix + "t"}
	if claim.Partition != want || claim.Committed >= 0 || claim.Start != 0 || claim.End != 4 || claim.Generation < 1 || claim.Member == "" {
		t.Errorf("claim %+v, want that of %+v, which ends at 4, and of which nothing was committed", claim, want)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	second := kafkaSubscribeAt(t, kafkaOpen(t, cfg), noting(2))
	second.expect("3", "4")
	if again := <-claims; again.Committed != 4 || again.Generation <= claim.Generation || again.Member == claim.Member {
		t.Errorf("claim %+v after %+v, want a later generation, another member, and the offset 4 that was committed", again, claim)
	}
}

// TestKafkaSubscribeAt_TakeFails asks again after an outage, and ends at what waiting will not fix.
func TestKafkaSubscribeAt_TakeFails(t *testing.T) {
	t.Parallel()
	b := kafkaOpen(t, kafkaConfig(kafkaURL(t)))
	kafkaSend(t, b, kafkaMessages("t", 1, oneKey))
	errs := []error{waybill.UnavailableError(errors.New("database away")), waybill.ConflictError(contract.ErrFenced)}
	var mu sync.Mutex
	g := kafkaSubscribeAt(t, b, func(_ context.Context, c contract.PartitionClaim) (contract.Progress, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(errs) == 0 {
			return contract.Progress{Holder: c.Holder}, nil
		}
		err := errs[0]
		errs = errs[1:]
		return contract.Progress{}, err
	})
	g.expect("1")
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	lost := waybill.PermanentError(waybill.ReasonRejected, errors.New("the topic was made again"))
	ended := make(chan error, 1)
	sub := b.Subscriber(consumer.Subscription{Group: "g-t", Topics: []string{"t"}}).(contract.OffsetSubscriber)
	go func() {
		ended <- sub.SubscribeAt(t.Context(), 1, func(context.Context, contract.PartitionClaim) (contract.Progress, error) {
			return contract.Progress{}, lost
		}, func(contract.PlacedDelivery) {})
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, lost) {
			t.Errorf("SubscribeAt() = %v, want %v", err, lost)
		}
	case <-time.After(patience):
		t.Fatal("SubscribeAt goes on")
	}
}

// offsetConsumer is a consumer that keeps offsets in addition to, or instead of, its inbox.
type offsetConsumer struct {
	t     *testing.T
	store *memstore.Store
	b     *kafkabroker.Broker
	mode  consumer.OffsetMode
	ends  func(*waybill.Message) error // of the handler; nil for none
}

// run starts it. stop waits for its end.
func (o offsetConsumer) run() (stop func()) {
	o.t.Helper()
	c, err := consumer.New(o.b, consumer.Subscription{Group: "g-t", Topics: []string{"t"}}, contract.Inbox[*memstore.Tx](o.store),
		func(_ context.Context, tx *memstore.Tx, m *waybill.Message) error {
			effect := "effect " + string(m.Payload)
			n, _ := tx.Get(effect).(int)
			tx.Set(effect, n+1)
			if o.ends != nil {
				return o.ends(m)
			}
			return nil
		}, consumer.Config{
			Offsets: o.mode, Retry: waybill.RetryPolicy{MaxRetries: 2, BaseDelay: time.Millisecond},
		})
	must(o.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = func() {
		cancel()
		err := <-ended
		ended <- err
		must(o.t, err)
	}
	o.t.Cleanup(stop)
	return stop
}

func (o offsetConsumer) effects(payload string) int {
	n, _ := o.store.Value("effect " + payload).(int)
	return n
}

// waitNext waits until the progress of partition 0 is at an offset, taken by somebody else than
// last, and returns it.
func (o offsetConsumer) waitNext(topic string, next int64, last inbox.Holder) contract.Progress {
	o.t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		p, _, err := o.store.ReadProgress(context.Background(), inbox.Partition{Group: "g-t", Topic: topic})
		must(o.t, err)
		if p.Next == next && p.Holder != last {
			return p
		}
		if p.Next > next || time.Now().After(end) {
			o.t.Fatalf("progress %+v, want the next offset %d, and not of %+v", p, next, last)
		}
	}
}

// TestKafkaOffsets_GroupRemoved: a group that was removed, and whose generations start over, goes
// on where the database says.
func TestKafkaOffsets_GroupRemoved(t *testing.T) {
	t.Parallel()
	cfg := kafkaQuick(kafkaConfig(kafkaURL(t)), 10*time.Second)
	o := offsetConsumer{t: t, store: memstore.New(), b: kafkaOpen(t, cfg), mode: consumer.OffsetsBesideInbox}
	topic := cfg.TopicPrefix + "t"
	kafkaSend(t, o.b, kafkaMessages("t", 3, oneKey))
	var before contract.Progress
	for range 3 { // each start is a generation
		stop := o.run()
		before = o.waitNext(topic, 3, before.Holder)
		stop()
	}
	deleted, err := kadm.NewClient(kafkaClient(t, cfg)).DeleteGroups(t.Context(), "g-t")
	must(t, errors.Join(err, deleted.Error()))
	kafkaSend(t, o.b, kafkaMessages("t", 4, oneKey)[3:])
	o.run()
	after := o.waitNext(topic, 4, before.Holder)
	if after.Generation >= before.Generation {
		t.Fatalf("generation %d after %d: the test removed no group", after.Generation, before.Generation)
	}
	for _, m := range []string{"1", "2", "3", "4"} {
		if n := o.effects(m); n != 1 {
			t.Errorf("message %s has %d effects, want 1", m, n)
		}
	}
}

// TestKafkaOffsets_TopicMadeAgain: messages that stand where others stood are not taken for these.
func TestKafkaOffsets_TopicMadeAgain(t *testing.T) {
	t.Parallel()
	cfg := kafkaConfig(kafkaURL(t))
	o := offsetConsumer{t: t, store: memstore.New(), b: kafkaOpen(t, cfg), mode: consumer.OffsetsBesideInbox}
	topic := cfg.TopicPrefix + "t"
	kafkaSend(t, o.b, kafkaMessages("t", 3, oneKey))
	stop := o.run()
	o.waitNext(topic, 3, inbox.Holder{})
	stop()
	admin := kadm.NewClient(kafkaClient(t, cfg))
	deleted, err := admin.DeleteTopics(t.Context(), topic)
	must(t, errors.Join(err, deleted.Error()))
	other := kafkaOpen(t, cfg)
	kafkaSend(t, other, kafkaMessages("t", 1, oneKey))
	sub := consumer.Subscription{Group: "g-t", Topics: []string{"t"}}
	c, err := consumer.New(other, sub, contract.Inbox[*memstore.Tx](o.store), func(context.Context, *memstore.Tx, *waybill.Message) error {
		t.Error("the handler ran")
		return nil
	}, consumer.Config{Offsets: o.mode})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		if err := c.Health(); err != nil && strings.Contains(err.Error(), "made again") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("Health() = %v, want an error about the topic", c.Health())
		}
	}
	cancel()
	must(t, <-ended)
	o.waitNext(topic, 3, inbox.Holder{})
}

// TestKafkaOffsets_Records: what was published in a transaction has no record, what was not has
// one; a failing message holds up its partition, and is done with when it is a dead letter.
func TestKafkaOffsets_Records(t *testing.T) {
	t.Parallel()
	cfg := kafkaConfig(kafkaClusterURL(kafkaCluster(t, kfake.NumBrokers(1))))
	var order []string
	o := offsetConsumer{t: t, store: memstore.New(), b: kafkaOpen(t, cfg), mode: consumer.OffsetsBehindExactlyOnce, ends: func(m *waybill.Message) error {
		order = append(order, string(m.Payload)) // in transactions, which the store has one at a time
		if string(m.Payload) == "fails" {
			return errors.New("never")
		}
		return nil
	}}
	topic := cfg.TopicPrefix + "t"
	kafkaSend(t, o.b, kafkaMessages("t", 1, oneKey)) // "1", when the partition is new
	stop := o.run()
	o.waitNext(topic, 1, inbox.Holder{})
	producer := kafkaClient(t, cfg, kgo.TransactionalID("relay-"+cfg.TopicPrefix))
	publish := func(payload string) {
		t.Helper()
		must(t, producer.BeginTransaction())
		r := &kgo.Record{Topic: topic, Value: []byte(payload), Headers: []kgo.RecordHeader{
			{Key: "ce_id", Value: []byte("id-" + payload)}, {Key: "ce_specversion", Value: []byte("1.0")},
			{Key: "ce_source", Value: []byte("test")}, {Key: "ce_type", Value: []byte("t")},
		}}
		must(t, producer.ProduceSync(t.Context(), r).FirstErr())
		must(t, producer.EndTransaction(t.Context(), kgo.TryCommit))
	}
	publish("once") // at offset 1, a marker behind it
	publish("fails")
	publish("last")
	o.waitNext(topic, 6, inbox.Holder{})
	stop()
	var alone [][]string
	for _, id := range []string{"id-once", "id-fails", "id-last"} {
		states, err := o.store.InboxStates(t.Context(), id, "g-t")
		must(t, err)
		var list []string
		for _, s := range states {
			list = append(list, fmt.Sprintf("dead %v", s.DeadAt != nil))
		}
		alone = append(alone, list)
	}
	if got, want := fmt.Sprint(alone), "[[] [dead true] []]"; got != want {
		t.Errorf("records %s, want %s: the dead letter's alone", got, want)
	}
	if got, want := strings.Join(order, " "), "1 once fails fails fails last"; got != want {
		t.Errorf("handled %q, want %q", got, want)
	}
	for payload, want := range map[string]int{"1": 1, "once": 1, "fails": 0, "last": 1} {
		if n := o.effects(payload); n != want {
			t.Errorf("message %q has %d effects, want %d", payload, n, want)
		}
	}
}

// TestKafkaOffsets_CommittedBeyond: the group's offset is behind the end of a transaction, which is no message, so that
// nobody has gone on without the store.
func TestKafkaOffsets_CommittedBeyond(t *testing.T) {
	t.Parallel()
	cfg := kafkaConfig(kafkaClusterURL(kafkaCluster(t)))
	b := kafkaOpen(t, cfg)
	kafkaSend(t, b, kafkaMessages("t", 1, oneKey)) // at offset 0
	topic := cfg.TopicPrefix + "t"
	producer := kafkaClient(t, cfg, kgo.TransactionalID("relay-"+cfg.TopicPrefix))
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} { // at 1, 3 and 5, a marker behind each
		must(t, producer.BeginTransaction())
		must(t, producer.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr())
		must(t, producer.EndTransaction(t.Context(), end))
	}
	claims := make(chan contract.PartitionClaim, 1)
	g := kafkaSubscribeAt(t, b, func(_ context.Context, c contract.PartitionClaim) (contract.Progress, error) {
		claims <- c
		return contract.Progress{Next: 7, Holder: c.Holder}, nil
	})
	claim := <-claims
	has := func(from, to int64, want bool) {
		t.Helper()
		if got, err := claim.HasMessages(t.Context(), from, to); got != want || err != nil {
			t.Errorf("HasMessages(%d, %d) = %v, %v, want %v", from, to, got, err, want)
		}
	}
	has(0, 1, true)
	has(1, 3, true)
	has(2, 3, false)
	has(3, 5, false) // aborted
	has(2, 6, true)
	has(6, 7, false)
	admin := kadm.NewClient(kafkaClient(t, cfg))
	var before kadm.Offsets
	before.AddOffset(topic, 0, 5, -1)
	_, err := admin.DeleteRecords(t.Context(), before)
	must(t, err)
	has(2, 3, true) // nobody can tell any more
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := claim.HasMessages(ended, 6, 7); !errors.Is(err, context.Canceled) {
		t.Errorf("HasMessages() of a caller whose context has ended: %v, want its reason", err)
	}
	must(t, g.stop())
}
