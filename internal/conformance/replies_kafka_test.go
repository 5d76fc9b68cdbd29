package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/kafkabroker"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/request"
)

// kafkaReplies is a reply destination that is received from.
type kafkaReplies struct {
	cfg     kafkabroker.Config
	broker  *kafkabroker.Broker
	address string
	texts   chan string // payloads of replies
	ended   chan error  // what Subscribe returned
}

func startKafkaReplies(t *testing.T, cfg kafkabroker.Config) *kafkaReplies {
	t.Helper()
	k := &kafkaReplies{cfg: cfg, broker: kafkaOpen(t, cfg), texts: make(chan string), ended: make(chan error, 1)}
	address, replies, err := k.broker.OpenReplies(t.Context())
	if err != nil {
		t.Fatalf("OpenReplies() = %v", err)
	}
	k.address = address
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.ended <- replies.Subscribe(ctx, 10, func(d contract.Delivery) {
			m, err := d.Message()
			if err != nil || m.To != k.address || m.Key != "" {
				t.Errorf("got %+v, error %v; want one to %s without a key", m, err, k.address)
			}
			select {
			case k.texts <- string(m.Payload):
			case <-ctx.Done():
			}
			if err := d.Ack(context.Background()); err != nil {
				t.Errorf("Ack() = %v", err)
			}
		})
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return k
}

// send sends a reply.
func (k *kafkaReplies) send(t *testing.T, address, text string) error {
	t.Helper()
	m := waybill.Message{To: address, Type: "reply", Source: "test", Payload: []byte(text)}
	m.Complete()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return k.broker.Publisher().Send(ctx, []contract.Outgoing{{Message: &m, DedupID: m.ID}})()[0]
}

func (k *kafkaReplies) expect(t *testing.T, text string) {
	t.Helper()
	select {
	case got := <-k.texts:
		if got != text {
			t.Fatalf("got %q, want %q", got, text)
		}
	case err := <-k.ended:
		t.Fatalf("Subscribe() = %v, want it to wait for %q", err, text)
	case <-time.After(patience):
		t.Fatalf("%q has not come", text)
	}
}

// TestKafkaBroker_RepliesOfOthers: a client gets its own replies of all that are in the topic, and leaves
// no group behind.
func TestKafkaBroker_RepliesOfOthers(t *testing.T) {
	t.Parallel()
	cfg := kafkaConfig(kafkaURL(t))
	cfg.Partitions = 3
	one, other := startKafkaReplies(t, cfg), startKafkaReplies(t, cfg)
	for _, text := range []string{"1", "2", "3"} {
		must(t, one.send(t, request.NewAddress(), "to nobody"))
		must(t, one.send(t, one.address, "to one "+text))
		must(t, one.send(t, other.address, "to the other "+text))
	}
	for _, text := range []string{"1", "2", "3"} {
		one.expect(t, "to one "+text)
		other.expect(t, "to the other "+text)
	}
	admin := kadm.NewClient(kafkaClient(t, cfg))
	groups, err := admin.ListGroups(t.Context())
	if err != nil || len(groups) > 0 {
		t.Errorf("the cluster has the groups %v, error %v; want none", groups.Groups(), err)
	}
}

// TestKafkaBroker_RepliesTopic: the topic of replies is not made unless topics are to be made, can
// be planned, and drops what is old.
func TestKafkaBroker_RepliesTopic(t *testing.T) {
	t.Parallel()
	cfg := kafkaConfig(kafkaURL(t))
	cfg.CreateTopics = false
	k := &kafkaReplies{cfg: cfg, broker: kafkaOpen(t, cfg)}
	if _, _, err := k.broker.OpenReplies(t.Context()); waybill.ReasonOf(err) != waybill.ReasonUnroutable || !waybill.IsPermanent(err) {
		t.Fatalf("OpenReplies() without its topic = %v, want a permanent error that it is not there", err)
	}
	if err := k.send(t, request.NewAddress(), "to nobody"); err != nil {
		t.Errorf("Send() of a reply without the topic = %v, want nil: nobody waits", err)
	}
	name := cfg.TopicPrefix + "_replies"
	steps, err := k.broker.Apply(t.Context(), broker.Wanted{Destinations: []string{request.NewAddress(), request.NewAddress()}})
	if err != nil || len(steps) != 1 || steps[0].Name != name || steps[0].Action != broker.Create {
		t.Fatalf("Apply() = %v, %v; want one step that creates %s", steps, err, name)
	}
	if _, _, err := k.broker.OpenReplies(t.Context()); err != nil {
		t.Errorf("OpenReplies() = %v", err)
	}
	configs, err := kadm.NewClient(kafkaClient(t, cfg)).DescribeTopicConfigs(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	settings := make(map[string]string)
	for _, c := range configs[0].Configs {
		settings[c.Key] = c.MaybeValue()
	}
	for _, key := range []string{"retention.ms", "segment.ms"} {
		age, err := time.ParseDuration(settings[key] + "ms")
		if err != nil || age < request.Expiry || age > time.Hour {
			t.Errorf("%s is %q; want at least %v, and less than an hour", key, settings[key], request.Expiry)
		}
	}
	if settings["cleanup.policy"] != "delete" {
		t.Errorf("cleanup.policy is %q", settings["cleanup.policy"])
	}
}

// TestKafkaBroker_RepliesTopicRemoved: a client whose topic is removed under it recreates it, and
// gets what is sent then.
func TestKafkaBroker_RepliesTopicRemoved(t *testing.T) {
	t.Parallel()
	k := startKafkaReplies(t, kafkaConfig(kafkaURL(t)))
	must(t, k.send(t, k.address, "before"))
	k.expect(t, "before")
	admin := kadm.NewClient(kafkaClient(t, k.cfg))
	name := k.cfg.TopicPrefix + "_replies"
	if _, err := admin.DeleteTopic(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for recreated := false; !recreated; {
		details, err := admin.ListTopics(kadm.WithAuthorizedOps(ctx), name)
		if err != nil {
			t.Fatalf("the topic is not recreated: %v", err)
		}
		recreated = details[name].Err == nil && len(details[name].Partitions) > 0
	}
	for err := k.send(t, k.address, "after"); err != nil; err = k.send(t, k.address, "after") {
		if !waybill.IsUnavailable(err) || ctx.Err() != nil {
			t.Fatalf("Send() = %v; want that it works soon", err)
		}
	}
	k.expect(t, "after")
}

// TestKafkaBroker_RepliesPartitionAdded: what is sent to a partition that was added to the topic
// arrives as well.
func TestKafkaBroker_RepliesPartitionAdded(t *testing.T) {
	t.Parallel()
	k := startKafkaReplies(t, kafkaConfig(kafkaURL(t)))
	name := k.cfg.TopicPrefix + "_replies"
	client := kafkaClient(t, k.cfg, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if _, err := kadm.NewClient(client).UpdatePartitions(t.Context(), 2, name); err != nil {
		t.Fatal(err)
	}
	record := &kgo.Record{Topic: name, Partition: 1, Key: []byte(k.address), Value: []byte("by another partition")}
	if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	k.expect(t, "by another partition")
}
