package conformance

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/kafkabroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/guarantee"
)

// kafkaQuick makes groups notice quickly that members come and go.
func kafkaQuick(cfg kafkabroker.Config, session time.Duration) kafkabroker.Config {
	cfg.Options = append(cfg.Options[:len(cfg.Options):len(cfg.Options)],
		kgo.HeartbeatInterval(100*time.Millisecond), kgo.SessionTimeout(session))
	return cfg
}

func manyKeys(i int) string { return fmt.Sprint("k", i%16) }

// TestKafkaSubscriber_Rebalance lets a second replica join and leave while messages flow: each
// arrives once, in order per key, and both replicas get some. What the second one gives back waits
// until a fetch of the first one has ended, so none may take the 5 s of the client library.
func TestKafkaSubscriber_Rebalance(t *testing.T) {
	t.Parallel()
	const most, some, longest = 10_000, 50, 500 // ms
	cluster := kafkaCluster(t)
	var fetches, waits atomic.Int32
	cluster.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if fetches.Add(1); r.(*kmsg.FetchRequest).MaxWaitMillis > longest {
			waits.Add(1)
		}
		return nil, nil, false
	})
	cfg := kafkaQuick(kafkaConfig(kafkaClusterURL(cluster)), 10*time.Second)
	cfg.Partitions = 4
	b := kafkaOpen(t, cfg)
	msgs := kafkaMessages("t", most, manyKeys)
	tally := &kafkaTally{t: t, last: make(map[string]int)}
	kafkaSend(t, b, msgs[:1])
	first := kafkaSubscribe(t, b, "t", 10)
	tally.take(first.next())
	second := kafkaSubscribe(t, kafkaOpen(t, cfg), "t", 10)
	pass := func(number int) {
		kafkaSend(t, b, msgs[number-1:number])
		tally.takeFrom(first, second)
	}
	n := 1
	for tally.bySecond < some {
		if n++; n > most-some {
			t.Fatal("the second replica got nothing")
		}
		pass(n)
	}
	if err := second.stop(); err != nil {
		t.Error(err)
	}
	for range some {
		n++
		pass(n)
	}
	if all, long := fetches.Load(), waits.Load(); all == 0 || long > 0 {
		t.Errorf("%d of %d fetches may take longer than %d ms, want none", long, all, longest)
	}
}

// TestKafkaSubscriber_DrainsBeforeItGivesUp holds a message of each partition while a second
// replica joins: that one gets neither, and no partition before they are settled.
func TestKafkaSubscriber_DrainsBeforeItGivesUp(t *testing.T) {
	t.Parallel()
	const watched = 500 * time.Millisecond
	cfg := kafkaQuick(kafkaConfig(kafkaURL(t)), 10*time.Second)
	cfg.Partitions, cfg.DrainTimeout = 2, 30*time.Second
	b := kafkaOpen(t, cfg)
	kafkaSend(t, b, kafkaMessages("t", 32, manyKeys))
	first := kafkaSubscribe(t, b, "t", 32)
	var held []contract.Delivery
	for range 32 {
		held = append(held, first.next())
	}
	second := kafkaSubscribe(t, kafkaOpen(t, cfg), "t", 32)
	admin := kadm.NewClient(kafkaClient(t, cfg))
	for members := 0; members < 2; { // until the second one has joined
		groups, err := admin.DescribeGroups(t.Context(), "g-t")
		if err != nil {
			t.Fatal(err)
		}
		members = len(groups["g-t"].Members)
	}
	select {
	case d := <-second.got:
		t.Fatalf("message %s, which is being worked on, was delivered to another replica", payload(d))
	case <-time.After(watched):
	}
	for _, d := range held {
		if err := d.Ack(t.Context()); err != nil {
			t.Errorf("Ack() = %v", err)
		}
	}
	tally := &kafkaTally{t: t, last: make(map[string]int)}
	for i := 0; tally.bySecond == 0; i++ {
		m := kafkaMessages("t", i+1, manyKeys)[i]
		kafkaSend(t, b, []contract.Outgoing{m})
		tally.takeFrom(first, second)
	}
}

// kafkaTally sees that messages arrive once and in order per key.
type kafkaTally struct {
	t        *testing.T
	last     map[string]int // number of the last message per key
	bySecond int
}

// takeFrom takes one message of either replica.
func (k *kafkaTally) takeFrom(first, second *kafkaGroup) {
	k.t.Helper()
	select {
	case d := <-first.got:
		k.take(d)
	case d := <-second.got:
		k.bySecond++
		k.take(d)
	case <-time.After(patience):
		k.t.Fatal("no message arrived")
	}
}

func (k *kafkaTally) take(d contract.Delivery) {
	k.t.Helper()
	m, err := d.Message()
	if err != nil {
		k.t.Fatal(err)
	}
	var number int
	fmt.Sscan(string(m.Payload), &number)
	if number <= k.last[m.Key] {
		k.t.Errorf("message %d of key %s came after message %d", number, m.Key, k.last[m.Key])
	}
	k.last[m.Key] = number
	if err := d.Ack(k.t.Context()); err != nil {
		k.t.Errorf("Ack() = %v", err)
	}
}

// TestKafkaSubscriber_Killed cuts a consumer off with messages in flight: another one of its
// group gets all that was not committed, flagged, and what comes after.
func TestKafkaSubscriber_Killed(t *testing.T) {
	t.Parallel()
	cluster := kafkaCluster(t, kfake.GroupMinSessionTimeout(100*time.Millisecond))
	cfg, proxy := kafkaProxied(t, cluster)
	direct := cfg
	direct.Options = nil
	healthy := kafkaOpen(t, kafkaQuick(direct, time.Second))
	kafkaSend(t, healthy, kafkaMessages("t", 5, oneKey))
	victim := kafkaSubscribe(t, kafkaOpen(t, kafkaQuick(cfg, time.Second)), "t", 10)
	held := []contract.Delivery{victim.next(), victim.next(), victim.next()}
	if err := held[1].Ack(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Refuse(true)
	proxy.Cut()
	heir := kafkaSubscribe(t, healthy, "t", 10)
	for i := range 5 {
		d := heir.next()
		if payload(d) != fmt.Sprint(i+1) || !d.Redelivered() {
			t.Errorf("payload %q, Redelivered() = %v, want %d redelivered", payload(d), d.Redelivered(), i+1)
		}
		if err := d.Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	kafkaSend(t, healthy, kafkaMessages("t", 1, oneKey))
	if d := heir.next(); payload(d) != "1" || d.Redelivered() {
		t.Errorf("payload %q, Redelivered() = %v, want a new message", payload(d), d.Redelivered())
	}
}

// TestKafkaSubscriber_StaticMember restarts one of two replicas that have an InstanceID: its
// partitions wait for it instead of going to the other.
func TestKafkaSubscriber_StaticMember(t *testing.T) {
	t.Parallel()
	const n, watched = 64, time.Second // a rebalance takes some heartbeats of 100 ms
	cfg := kafkaQuick(kafkaConfig(kafkaURL(t)), 30*time.Second)
	cfg.Partitions = 8
	publisher := kafkaOpen(t, cfg)
	open := func(instance string) *kafkabroker.Broker {
		c := cfg
		c.InstanceID = instance
		return kafkaOpen(t, c)
	}
	kafkaSend(t, publisher, kafkaMessages("t", n, manyKeys))
	one := open("one")
	a, b := kafkaSubscribe(t, one, "t", n), kafkaSubscribe(t, open("two"), "t", n)
	kafkaTakeAll(t, a, b, n)
	var ofFirst map[string]bool
	for shared := false; !shared; {
		kafkaSend(t, publisher, kafkaMessages("t", n, manyKeys))
		ofFirst, shared = kafkaTakeAll(t, a, b, n)
	}
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	one.Close()
	kafkaSend(t, publisher, kafkaMessages("t", n, manyKeys))
	for end := time.After(watched); end != nil; {
		select {
		case d := <-b.got:
			if m := kafkaAck(t, d); ofFirst[m.Key] {
				t.Fatalf("key %s of the replica that restarts went to the other", m.Key)
			}
		case <-end:
			end = nil
		}
	}
	if m := kafkaAck(t, kafkaSubscribe(t, open("one"), "t", n).next()); !ofFirst[m.Key] {
		t.Errorf("the replica got key %s after its restart, want one of its own", m.Key)
	}
}

// kafkaTakeAll acknowledges n messages of two replicas. It returns the keys that the first one
// had, and whether both had some.
func kafkaTakeAll(t *testing.T, a, b *kafkaGroup, n int) (ofFirst map[string]bool, shared bool) {
	t.Helper()
	ofFirst = make(map[string]bool)
	second := 0
	for range n {
		select {
		case d := <-a.got:
			ofFirst[kafkaAck(t, d).Key] = true
		case d := <-b.got:
			kafkaAck(t, d)
			second++
		case <-time.After(patience):
			t.Fatal("no message arrived")
		}
	}
	return ofFirst, len(ofFirst) > 0 && second > 0
}

func kafkaAck(t *testing.T, d contract.Delivery) *waybill.Message {
	t.Helper()
	m, err := d.Message()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Ack(t.Context()); err != nil {
		t.Errorf("Ack() = %v", err)
	}
	return m
}

// TestKafkaSubscriber_SmallWindow receives a hundred messages through a window of two, which
// stops and starts the partition again and again.
func TestKafkaSubscriber_SmallWindow(t *testing.T) {
	t.Parallel()
	const n = 100
	cfg := kafkaConfig(kafkaURL(t))
	cfg.Window = 2
	b := kafkaOpen(t, cfg)
	kafkaSend(t, b, kafkaMessages("t", n, oneKey))
	g := kafkaSubscribe(t, b, "t", 2)
	for i := range n {
		g.expect(fmt.Sprint(i + 1))
	}
}

// TestKafkaBroker_Topology plans, applies and plans again; what exists otherwise is reported and
// stays as it is.
func TestKafkaBroker_Topology(t *testing.T) {
	t.Parallel()
	cfg := kafkaConfig(kafkaURL(t))
	cfg.CreateTopics = false
	b := kafkaOpen(t, cfg)
	want := broker.Wanted{
		Topics:        []string{"orders"},
		Destinations:  []string{"billing"},
		Subscriptions: []consumer.Subscription{{Group: "g", Topics: []string{"orders", "paid"}, To: "billing"}},
	}
	actions := func(steps []broker.Step, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var text string
		for _, s := range steps {
			text += s.Kind + " " + s.Name[len(cfg.TopicPrefix):] + " " + string(s.Action) + "\n"
		}
		return text
	}
	missing := "topic _to.billing create\ntopic orders create\ntopic paid create\n"
	there := "topic _to.billing keep\ntopic orders keep\ntopic paid keep\n"
	for i, step := range []struct {
		do   func(context.Context, broker.Wanted) ([]broker.Step, error)
		want string
	}{{b.Plan, missing}, {b.Plan, missing}, {b.Apply, missing}, {b.Plan, there}, {b.Apply, there}} {
		if got := actions(step.do(t.Context(), want)); got != step.want {
			t.Errorf("step %d:\n%swant\n%s", i+1, got, step.want)
		}
	}
	cfg.Partitions = 3
	other := kafkaOpen(t, cfg)
	conflict := "topic orders conflict\n"
	for range 2 {
		steps, err := other.Apply(t.Context(), broker.Wanted{Topics: []string{"orders"}})
		if got := actions(steps, err); got != conflict || steps[0].Detail != "partitions: is 1, wanted 3" {
			t.Errorf("Apply() = %s%s, want a conflict of partitions, which stays", got, steps[0].Detail)
		}
	}
}

// TestKafkaBroker_Explain reads replication and min.insync.replicas from the cluster.
func TestKafkaBroker_Explain(t *testing.T) {
	t.Parallel()
	for minISR, survives := range map[string]guarantee.Survives{"1": guarantee.ProcessCrash, "2": guarantee.NodeLoss} {
		cluster := kafkaCluster(t, kfake.NumBrokers(3), kfake.BrokerConfigs(map[string]string{"min.insync.replicas": minISR}))
		cfg := kafkaConfig(kafkaClusterURL(cluster))
		cfg.ReplicationFactor = 3
		b := kafkaOpen(t, cfg)
		if _, err := b.Apply(t.Context(), broker.Wanted{Topics: []string{"t"}}); err != nil {
			t.Fatal(err)
		}
		facts, err := b.Explain(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		told := make(map[string]guarantee.Fact)
		for _, f := range facts {
			told[f.Setting] = f
		}
		if f := told["min.insync.replicas"]; f.Value != minISR || f.Survives != survives || (f.Stronger == "") != (minISR == "2") {
			t.Errorf("min.insync.replicas is shown as %+v, want %s, surviving %v", f, minISR, survives)
		}
		if f := told["replication.factor"]; f.Value != "3" || f.Survives != guarantee.NodeLoss {
			t.Errorf("replication.factor is shown as %+v, want 3", f)
		}
		if f := told["acks"]; f.Value != "all" {
			t.Errorf("acks is shown as %+v, want all", f)
		}
	}
}
