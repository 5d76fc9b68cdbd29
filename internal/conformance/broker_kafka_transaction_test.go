package conformance

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/kafkabroker"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/testtools/deadline"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
)

// kafkaLane is what rows of these tests lie in.
const kafkaLane = 3

// kafkaRowMessages returns n messages of topic t as the rows from first on of one lane.
func kafkaRowMessages(first, n int) []contract.Outgoing {
	msgs := kafkaMessages("t", n, oneKey)
	for i := range msgs {
		msgs[i].Row = contract.Row{Lane: kafkaLane, Position: int64(first + i)}
	}
	return msgs
}

// kafkaStored returns how many records of a topic there are, committed or not, with what ends
// transactions.
func kafkaStored(t *testing.T, cfg kafkabroker.Config, topic string) int64 {
	t.Helper()
	ends, err := kadm.NewClient(kafkaClient(t, cfg)).ListEndOffsets(t.Context(), cfg.TopicPrefix+topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(cfg.TopicPrefix+topic, 0)
	return end.Offset
}

// kafkaCommittedIDs returns the ids of what is committed in topic t, each as often as it is there.
func kafkaCommittedIDs(t *testing.T, cfg kafkabroker.Config) []string {
	t.Helper()
	topic := cfg.TopicPrefix + "t"
	client := kafkaClient(t, cfg, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	var ids []string
	for read, end := int64(0), kafkaStored(t, cfg, "t"); read < end; {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			read = r.Offset + 1
			for _, h := range r.Headers {
				if h.Key == "ce_id" {
					ids = append(ids, string(h.Value))
				}
			}
		})
	}
	return ids
}

func idsOfAll(batches ...[]contract.Outgoing) (ids []string) {
	for _, m := range slices.Concat(batches...) {
		ids = append(ids, m.ID)
	}
	return ids
}

// kafkaZombie is a broker behind a proxy that has published one row, and the settings of its
// successors, which reach the cluster past the proxy.
func kafkaZombie(t *testing.T, cluster *kfake.Cluster) (zombie *kafkabroker.Broker, proxy *faultproxy.Proxy, direct kafkabroker.Config, first []contract.Outgoing) {
	t.Helper()
	cfg, proxy := kafkaProxied(t, cluster)
	cfg.TransactionalID = "outbox"
	direct = cfg
	direct.Options = nil
	zombie = kafkaOpen(t, cfg)
	first = kafkaRowMessages(1, 1)
	kafkaSend(t, zombie, first)
	return zombie, proxy, direct, first
}

// TestKafkaTransaction_Zombie has a relay whose transaction is open while another one takes its
// lane: the first commits nothing any more, and the second publishes what was open.
func TestKafkaTransaction_Zombie(t *testing.T) {
	t.Parallel()
	zombie, proxy, cfg, first := kafkaZombie(t, kafkaCluster(t))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	msgs := kafkaRowMessages(2, 4)
	proxy.StallReplies(true)
	before := kafkaStored(t, cfg, "t")
	wait := zombie.Publisher().Send(ctx, msgs)
	for kafkaStored(t, cfg, "t") == before { // until they are in an open transaction
	}
	kafkaSend(t, kafkaOpen(t, cfg), msgs)
	proxy.StallReplies(false)
	for i, err := range wait() {
		if !waybill.IsUnavailable(err) {
			t.Errorf("message %d of the relay that was superseded: %v, want unavailable", i+1, err)
		}
	}
	if got, want := kafkaCommittedIDs(t, cfg), idsOfAll(first, msgs); !slices.Equal(got, want) {
		t.Errorf("committed %v, want %v", got, want)
	}
	kafkaSend(t, zombie, msgs) // it has the lane again, and learns that there is nothing to do
	if got, want := kafkaCommittedIDs(t, cfg), idsOfAll(first, msgs); !slices.Equal(got, want) {
		t.Errorf("committed %v after they were sent again, want %v", got, want)
	}
}

// TestKafkaTransaction_Fenced has a relay with nothing in flight lose its lane: what it publishes
// next is refused, although it does not know yet. Then it learns what was published meanwhile.
func TestKafkaTransaction_Fenced(t *testing.T) {
	t.Parallel()
	cfg := kafkaExactConfig(kafkaURL(t))
	zombie := kafkaOpen(t, cfg)
	first, msgs := kafkaRowMessages(1, 1), kafkaRowMessages(2, 4)
	kafkaSend(t, zombie, first)
	kafkaSend(t, kafkaOpen(t, cfg), msgs)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, err := range zombie.Publisher().Send(ctx, msgs)() {
		if !waybill.IsUnavailable(err) {
			t.Errorf("message %d of the relay that was superseded: %v, want unavailable", i+1, err)
		}
	}
	kafkaSend(t, zombie, msgs)
	if got, want := kafkaCommittedIDs(t, cfg), idsOfAll(first, msgs); !slices.Equal(got, want) {
		t.Errorf("committed %v, want %v", got, want)
	}
}

// TestKafkaTransaction_UnknownCommit commits a transaction and does not learn of it: the messages
// are unavailable, and confirmed without a copy when they are sent again.
func TestKafkaTransaction_UnknownCommit(t *testing.T) {
	t.Parallel()
	cluster := kafkaCluster(t)
	b, proxy, cfg, first := kafkaZombie(t, cluster)
	ctx, pass := deadline.ByHand(t.Context())
	cluster.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		proxy.StallReplies(true)
		cluster.DropControl()
		pass()
		return nil, nil, false // it is carried out
	})
	msgs := kafkaRowMessages(2, 4)
	for i, err := range b.Publisher().Send(ctx, msgs)() {
		if !waybill.IsUnavailable(err) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("message %d: %v, want unavailable, deadline exceeded", i+1, err)
		}
	}
	proxy.Cut()
	proxy.StallReplies(false)
	if got, want := kafkaCommittedIDs(t, cfg), idsOfAll(first, msgs); !slices.Equal(got, want) {
		t.Fatalf("committed %v, want %v", got, want)
	}
	next := kafkaRowMessages(6, 1)
	kafkaSend(t, b, slices.Concat(msgs, next))
	if got, want := kafkaCommittedIDs(t, cfg), idsOfAll(first, msgs, next); !slices.Equal(got, want) {
		t.Errorf("committed %v, want %v", got, want)
	}
}

// TestKafkaTransaction_NothingOvertakes lets the deadline of one batch pass while another one of its
// lane is in line: both fail, and what is sent then is taken.
func TestKafkaTransaction_NothingOvertakes(t *testing.T) {
	t.Parallel()
	b, proxy, cfg, first := kafkaZombie(t, kafkaCluster(t))
	long, cancelLong := context.WithTimeout(t.Context(), patience)
	defer cancelLong()
	short, pass := deadline.ByHand(t.Context())
	proxy.StallReplies(true)
	before := kafkaStored(t, cfg, "t")
	one := b.Publisher().Send(short, kafkaRowMessages(2, 2))
	for kafkaStored(t, cfg, "t") == before { // until they are in an open transaction
	}
	two := b.Publisher().Send(long, kafkaRowMessages(4, 2))
	pass()
	for _, err := range one() {
		if !waybill.IsUnavailable(err) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("first batch: %v, want unavailable, deadline exceeded", err)
		}
	}
	proxy.StallReplies(false)
	for _, err := range two() {
		if !waybill.IsUnavailable(err) || !errors.Is(err, contract.ErrConnectionLost) {
			t.Errorf("batch behind the first: %v, want unavailable, connection lost", err)
		}
	}
	next := kafkaRowMessages(6, 2)
	kafkaSend(t, b, next)
	if got, want := kafkaCommittedIDs(t, cfg), idsOfAll(first, next); !slices.Equal(got, want) {
		t.Errorf("committed %v, want %v", got, want)
	}
}

// TestKafkaTransaction_OneRefused has the cluster refuse one message of a transaction: that one is
// permanent, the others are committed without it, once.
func TestKafkaTransaction_OneRefused(t *testing.T) {
	t.Parallel()
	cluster := kafkaCluster(t)
	b, _, cfg, first := kafkaZombie(t, cluster)
	other := kafkaMessages("refused", 1, oneKey)
	other[0].Row = contract.Row{Lane: kafkaLane, Position: 50}
	kafkaSend(t, b, kafkaMessages("refused", 1, oneKey)) // makes the topic
	details, err := kadm.NewClient(kafkaClient(t, cfg)).ListTopics(t.Context(), cfg.TopicPrefix+"refused")
	if err != nil {
		t.Fatal(err)
	}
	id := details[cfg.TopicPrefix+"refused"].ID
	cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		resp, refused := kafkaRefusal(r.(*kmsg.ProduceRequest), id)
		return resp, nil, refused
	})
	msgs := kafkaRowMessages(2, 4)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, err := range b.Publisher().Send(ctx, slices.Concat(other, msgs))() {
		if i > 0 && err != nil || i == 0 && waybill.ReasonOf(err) != waybill.ReasonRejected {
			t.Errorf("message %d: %v, want the first alone to be rejected", i+1, err)
		}
	}
	if got, want := kafkaCommittedIDs(t, cfg), idsOfAll(first, msgs); !slices.Equal(got, want) {
		t.Errorf("committed %v, want %v", got, want)
	}
}

// kafkaRefusal answers a request that has records for one topic: that takes none of them, ever, and
// the others are to be asked again. It reports whether there are any.
func kafkaRefusal(req *kmsg.ProduceRequest, topic kadm.TopicID) (resp *kmsg.ProduceResponse, refused bool) {
	resp = req.ResponseKind().(*kmsg.ProduceResponse)
	for _, asked := range req.Topics {
		answer := kmsg.NewProduceResponseTopic()
		answer.Topic, answer.TopicID = asked.Topic, asked.TopicID
		code := kerr.NotLeaderForPartition.Code
		if asked.TopicID == topic {
			code, refused = kerr.InvalidRecord.Code, true
		}
		for _, p := range asked.Partitions {
			part := kmsg.NewProduceResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, code
			answer.Partitions = append(answer.Partitions, part)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp, refused
}

// TestKafkaTransaction_Rows tells apart what is the same row, and what is another one.
func TestKafkaTransaction_Rows(t *testing.T) {
	t.Parallel()
	cfg := kafkaExactConfig(kafkaURL(t))
	b := kafkaOpen(t, cfg)
	msgs := kafkaRowMessages(1, 1)
	again := func(change func(m *contract.Outgoing)) []contract.Outgoing {
		copied := slices.Clone(msgs)
		change(&copied[0])
		return copied
	}
	want := 1
	kafkaSend(t, b, msgs)
	for name, more := range map[string][]contract.Outgoing{
		"another attempt":                again(func(m *contract.Outgoing) { m.Resent = true }),
		"another row with the same id":   again(func(m *contract.Outgoing) { m.Row.Position = 2 }),
		"the row for another place":      again(func(m *contract.Outgoing) { m.Row.Destination = "copies" }),
		"the next life after a requeue":  again(func(m *contract.Outgoing) { m.DedupID += "#r1" }),
		"what is of no outbox":           again(func(m *contract.Outgoing) { m.Row = contract.Row{} }),
		"what is of no outbox, repeated": again(func(m *contract.Outgoing) { m.Row = contract.Row{} }),
	} {
		if name != "another attempt" {
			want++
		}
		kafkaSend(t, b, more)
		if n := len(kafkaCommittedIDs(t, cfg)); n != want {
			t.Errorf("after %s the topic has %d records, want %d", name, n, want)
		}
	}
}

// TestKafkaTransaction_Window publishes more than stays on record: what is too old is deleted, and
// the rest is known to the next relay.
func TestKafkaTransaction_Window(t *testing.T) {
	t.Parallel()
	const window, step, batch = 10_000, 1000, 1000
	cfg := kafkaExactConfig(kafkaURL(t))
	b := kafkaOpen(t, cfg)
	var sent [][]contract.Outgoing
	for i := range (window + 3*step) / batch {
		sent = append(sent, kafkaRowMessages(1+i*batch, batch))
		kafkaSend(t, b, sent[i])
	}
	starts, err := kadm.NewClient(kafkaClient(t, cfg)).ListStartOffsets(t.Context(), cfg.TopicPrefix+"_progress.outbox")
	if err != nil {
		t.Fatal(err)
	}
	if start, _ := starts.Lookup(cfg.TopicPrefix+"_progress.outbox", kafkaLane); start.Offset == 0 {
		t.Error("nothing was deleted of what is on record for too long")
	}
	b.Close()
	kafkaSend(t, kafkaOpen(t, cfg), slices.Concat(sent[len(sent)-window/batch:]...))
	if n := len(kafkaCommittedIDs(t, cfg)); n != len(sent)*batch {
		t.Errorf("the topic has %d records, want %d", n, len(sent)*batch)
	}
}

// TestKafkaTransaction_ProgressTopic has no topic for the records, and one with too few partitions:
// messages wait and the error says what is wrong.
func TestKafkaTransaction_ProgressTopic(t *testing.T) {
	t.Parallel()
	cfg := kafkaExactConfig(kafkaClusterURL(kafkaCluster(t)))
	kafkaSend(t, kafkaOpen(t, cfg), kafkaMessages("t", 1, oneKey)) // makes topic t alone
	cfg.CreateTopics = false
	b := kafkaOpen(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	refused := func(want string) {
		t.Helper()
		err := b.Publisher().Send(ctx, kafkaRowMessages(1, 1))()[0]
		if !waybill.IsUnavailable(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("Send() = %v, want unavailable, %s", err, want)
		}
	}
	refused(`_progress.outbox", which the exactly-once relay needs, does not exist`)
	admin := kadm.NewClient(kafkaClient(t, cfg))
	if _, err := admin.CreateTopic(ctx, kafkaLane, -1, nil, cfg.TopicPrefix+"_progress.outbox"); err != nil {
		t.Fatal(err)
	}
	refused(`has 3 partitions, lane 3 needs 4`)
	if _, err := admin.DeleteTopic(ctx, cfg.TopicPrefix+"_progress.outbox"); err != nil {
		t.Fatal(err)
	}
	steps, err := b.Apply(ctx, broker.Wanted{Topics: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	made := make(map[string]string)
	for _, s := range steps {
		made[s.Name] = string(s.Action) + " " + s.Detail
	}
	if got := slices.Sorted(maps.Values(made)); len(got) != 2 || !strings.HasPrefix(made[cfg.TopicPrefix+"_progress.outbox"], "create partitions: 64") {
		t.Errorf("Apply() = %v, want the topic of the records to be created", made)
	}
	kafkaSend(t, b, kafkaRowMessages(1, 1))
	if steps, err = b.Plan(ctx, broker.Wanted{}); err != nil || len(steps) != 1 || steps[0].Action != broker.Keep {
		t.Errorf("Plan() = %v, %v, want the topic of the records to be kept", steps, err)
	}
}
