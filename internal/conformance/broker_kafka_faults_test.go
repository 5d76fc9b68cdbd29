package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/kafkabroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/testtools/deadline"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
)

// kafkaMessages returns n messages; the key of message i is key(i), its payload i, from 1 on.
func kafkaMessages(topic string, n int, key func(i int) string) []contract.Outgoing {
	list := make([]contract.Outgoing, n)
	for i := range list {
		m := &waybill.Message{Topic: topic, Source: "test", Key: key(i + 1), Payload: []byte(fmt.Sprint(i + 1))}
		m.Complete()
		list[i] = contract.Outgoing{Message: m, DedupID: m.ID}
	}
	return list
}

func oneKey(int) string { return "k" }

func kafkaSend(t *testing.T, b *kafkabroker.Broker, msgs []contract.Outgoing) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := errors.Join(b.Publisher().Send(ctx, msgs)()...); err != nil {
		t.Fatalf("Send() = %v, want all accepted", err)
	}
}

// kafkaGroup is a running subscription of group g; its deliveries come out of got.
type kafkaGroup struct {
	t    *testing.T
	got  chan contract.Delivery
	stop func() error // returns the result of Subscribe
}

func kafkaSubscribe(t *testing.T, b *kafkabroker.Broker, topic string, prefetch int) *kafkaGroup {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g := &kafkaGroup{t: t, got: make(chan contract.Delivery, 10_000)}
	ended := make(chan error, 1)
	sub := b.Subscriber(consumer.Subscription{Group: "g-" + topic, Topics: []string{topic}})
	go func() { ended <- sub.Subscribe(ctx, prefetch, func(d contract.Delivery) { g.got <- d }) }()
	g.stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() { g.stop() })
	return g
}

func (g *kafkaGroup) next() contract.Delivery {
	g.t.Helper()
	select {
	case d := <-g.got:
		return d
	case <-time.After(patience):
		g.t.Fatal("no message arrived")
	}
	return nil
}

func payload(d contract.Delivery) string {
	m, _ := d.Message()
	return string(m.Payload)
}

// expect takes and acknowledges deliveries with the payloads want, in that order.
func (g *kafkaGroup) expect(want ...string) {
	g.t.Helper()
	for _, w := range want {
		d := g.next()
		if payload(d) != w {
			g.t.Fatalf("payload %q, want %q", payload(d), w)
		}
		if err := d.Ack(g.t.Context()); err != nil {
			g.t.Fatal(err)
		}
	}
}

// TestKafkaFailedMessageIsNotSkipped (AS-64) fails message 2 of 4 and acknowledges the others: the
// group stays where message 2 is, over a stop and over a crash, until that one is done.
func TestKafkaFailedMessageIsNotSkipped(t *testing.T) {
	t.Parallel()
	cfg := kafkaConfig(kafkaURL(t))
	b := kafkaOpen(t, cfg)
	g := kafkaSubscribe(t, b, "t", 10)
	kafkaSend(t, b, kafkaMessages("t", 4, oneKey))
	g.expect("1")
	failing := g.next()
	if err := failing.Retry(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	g.expect("3", "4")
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	if at := kafkaCommitted(t, cfg); at != 1 {
		t.Errorf("offset %d is committed, want 1: message 2 is not done", at)
	}
	b.Close()
	other := kafkaOpen(t, cfg)
	again := kafkaSubscribe(t, other, "t", 10)
	d := again.next()
	if payload(d) != "2" || !d.Redelivered() {
		t.Errorf("payload %q, Redelivered() = %v, want 2 redelivered", payload(d), d.Redelivered())
	}
	if err := d.Ack(t.Context()); err != nil {
		t.Fatal(err)
	}
	again.expect("3", "4")
	again.stop()
	if at := kafkaCommitted(t, cfg); at != 4 {
		t.Errorf("offset %d is committed, want 4: all is done", at)
	}
}

// kafkaCommitted returns the committed offset of partition 0 of topic t.
func kafkaCommitted(t *testing.T, cfg kafkabroker.Config) int64 {
	t.Helper()
	offsets, err := kadm.NewClient(kafkaClient(t, cfg)).FetchOffsets(t.Context(), "g-t")
	if err != nil {
		t.Fatal(err)
	}
	at, _ := offsets.Lookup(cfg.TopicPrefix+"t", 0)
	return at.At
}

// kafkaProxied returns the configuration of a broker whose connections all pass a proxy.
func kafkaProxied(t *testing.T, cluster *kfake.Cluster) (kafkabroker.Config, *faultproxy.Proxy) {
	t.Helper()
	return kafkaThroughProxy(t, kafkaConfig(kafkaClusterURL(cluster)))
}

// kafkaThroughProxy returns cfg with all connections through a proxy to the first broker, which
// sees messages as they are.
func kafkaThroughProxy(t *testing.T, cfg kafkabroker.Config) (kafkabroker.Config, *faultproxy.Proxy) {
	t.Helper()
	first, _, _ := strings.Cut(strings.TrimPrefix(cfg.URL, "kafka://"), ",")
	proxy, err := faultproxy.New(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	cfg.Options = []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, proxy.Addr())
	})}
	return cfg, proxy
}

// TestKafkaPublisher_CutBeforeConfirm cuts the connection after the server has stored the
// messages and before it could say so: they are confirmed in the end, and there once.
func TestKafkaPublisher_CutBeforeConfirm(t *testing.T) {
	t.Parallel()
	cluster := kafkaCluster(t)
	cfg, proxy := kafkaProxied(t, cluster)
	b := kafkaOpen(t, cfg)
	kafkaSend(t, b, kafkaMessages("t", 1, oneKey)) // the topic is known from here on
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	proxy.StallReplies(true)
	wait := b.Publisher().Send(ctx, kafkaMessages("t", 20, oneKey))
	direct := cfg
	direct.Options = nil
	stored := kadm.NewClient(kafkaClient(t, direct))
	for ended := false; !ended; {
		ends, err := stored.ListEndOffsets(ctx, cfg.TopicPrefix+"t")
		if err != nil {
			t.Fatal(err)
		}
		end, _ := ends.Lookup(cfg.TopicPrefix+"t", 0)
		ended = end.Offset > 1
	}
	proxy.Cut()
	proxy.StallReplies(false)
	if err := errors.Join(wait()...); err != nil {
		t.Fatalf("wait() = %v, want all accepted over the next connection", err)
	}
	ends, err := stored.ListEndOffsets(ctx, cfg.TopicPrefix+"t")
	if err != nil {
		t.Fatal(err)
	}
	if end, _ := ends.Lookup(cfg.TopicPrefix+"t", 0); end.Offset != 21 {
		t.Errorf("%d records are stored, want 21", end.Offset)
	}
	g := kafkaSubscribe(t, kafkaOpen(t, direct), "t", 100)
	g.expect("1")
	for i := range 20 {
		g.expect(fmt.Sprint(i + 1))
	}
}

// TestKafkaPublisher_NothingOvertakes lets the deadline of one batch pass while another is on the
// way: both fail, a third is refused until both senders know, and only then is it taken.
func TestKafkaPublisher_NothingOvertakes(t *testing.T) {
	t.Parallel()
	cfg, proxy := kafkaProxied(t, kafkaCluster(t))
	b := kafkaOpen(t, cfg)
	kafkaSend(t, b, kafkaMessages("t", 1, oneKey))
	long, cancelLong := context.WithTimeout(t.Context(), patience)
	defer cancelLong()
	short, pass := deadline.ByHand(t.Context())
	proxy.Stall(true)
	first := b.Publisher().Send(short, kafkaMessages("t", 2, oneKey))
	second := b.Publisher().Send(long, kafkaMessages("t", 2, oneKey))
	pass()
	for _, err := range first() {
		if !waybill.IsUnavailable(err) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("first batch: %v, want unavailable, deadline exceeded", err)
		}
	}
	proxy.Stall(false)
	third := b.Publisher().Send(long, kafkaMessages("t", 2, oneKey))
	for _, err := range slices.Concat(second(), third()) {
		if !waybill.IsUnavailable(err) || !errors.Is(err, contract.ErrConnectionLost) {
			t.Errorf("batch behind the first: %v, want unavailable, connection lost", err)
		}
	}
	kafkaSend(t, b, kafkaMessages("t", 1, oneKey))
}

// TestKafkaPublisher_UnknownTopic publishes to a topic that nobody has made: the message is
// unroutable, what is sent with it is not.
func TestKafkaPublisher_UnknownTopic(t *testing.T) {
	t.Parallel()
	cfg := kafkaConfig(kafkaURL(t))
	kafkaSend(t, kafkaOpen(t, cfg), kafkaMessages("t", 1, oneKey))
	cfg.CreateTopics = false
	b := kafkaOpen(t, cfg)
	msgs := slices.Concat(kafkaMessages("t", 1, oneKey), kafkaMessages("nobody", 1, oneKey), kafkaMessages("t", 1, oneKey))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	results := b.Publisher().Send(ctx, msgs)()
	if results[0] != nil || results[2] != nil || !waybill.IsPermanent(results[1]) || waybill.ReasonOf(results[1]) != waybill.ReasonUnroutable {
		t.Errorf("results %v, want the second to be unroutable", results)
	}
	err := b.Subscriber(consumer.Subscription{Group: "g", Topics: []string{"nobody"}}).Subscribe(ctx, 1, func(contract.Delivery) {})
	if !waybill.IsPermanent(err) {
		t.Errorf("Subscribe() = %v to a topic that is missing, want a permanent error", err)
	}
}

// TestKafkaPublisher_SmallTopic publishes to a topic that takes less than the default: batches of
// small messages fit whatever their number, one that does not fit is refused alone.
func TestKafkaPublisher_SmallTopic(t *testing.T) {
	t.Parallel()
	const limit = 2000
	cfg := kafkaConfig(kafkaURL(t))
	value := fmt.Sprint(limit)
	admin := kadm.NewClient(kafkaClient(t, cfg))
	if _, err := admin.CreateTopic(t.Context(), 1, -1, map[string]*string{"max.message.bytes": &value}, cfg.TopicPrefix+"t"); err != nil {
		t.Fatal(err)
	}
	b := kafkaOpen(t, cfg)
	msgs := kafkaMessages("t", 100, oneKey)
	msgs[37].Payload = make([]byte, limit)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, err := range b.Publisher().Send(ctx, msgs)() {
		if i != 37 && err != nil || i == 37 && waybill.ReasonOf(err) != waybill.ReasonTooLarge {
			t.Errorf("message %d: %v, want the 38th alone to be too large", i+1, err)
		}
	}
}

// TestKafkaBroker_Credentials logs in by SCRAM, and shows no password where that fails.
func TestKafkaBroker_Credentials(t *testing.T) {
	t.Parallel()
	cluster := kafkaCluster(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "shop", "S3CR3T"))
	host := cluster.ListenAddrs()[0]
	cfg := kafkaConfig("kafka://shop:S3CR3T@" + host + "?sasl=scram-sha-256")
	kafkaSend(t, kafkaOpen(t, cfg), kafkaMessages("t", 1, oneKey))
	cfg.URL = "kafka://shop:S3CR3TX@" + host + "?sasl=scram-sha-256"
	b, err := kafkabroker.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Open() = %v with a wrong password", err)
	}
	defer b.Close()
	if err := b.Ping(t.Context()); !waybill.IsUnavailable(err) || strings.Contains(err.Error(), "S3CR3T") {
		t.Errorf("Ping() = %v with a wrong password, want unavailable, without the password", err)
	}
}
