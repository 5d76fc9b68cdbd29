package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/handover"
	"github.com/waybill-go/waybill/request"
)

var _ request.ReplyOpener = (*Broker)(nil)

// adoptInterval is how often a reply destination looks for partitions that were added to its topic.
const adoptInterval = 5 * time.Second

// beginRepeats is how often to look again for a topic that is reported to exist: for about 3 seconds.
const beginRepeats = 5

// replyAge is how long the cluster keeps replies, in milliseconds: longer than [request.Expiry].
const replyAge = "600000"

// OpenReplies implements [request.ReplyOpener]. All destinations share the topic
// TopicPrefix+"_replies", where the record's key is the address: a topic for each client would burden
// the whole cluster. Each client reads all partitions, without a group and from their current ends,
// and drops what is addressed to others. The topic must exist, unless [Config.CreateTopics] is set;
// without it the error is permanent.
func (b *Broker) OpenReplies(ctx context.Context) (address string, _ contract.Subscriber, err error) {
	if b.closed() {
		return "", nil, waybill.UnavailableError(errClosed)
	}
	r := &replies{broker: b, address: request.NewAddress(), topic: b.cfg.replyTopic(), next: make(map[int32]kgo.Offset)}
	if err := b.topics.need(ctx, []string{r.topic}); err != nil {
		return "", nil, err
	}
	if err := r.begin(ctx); err != nil {
		return "", nil, err
	}
	return r.address, r, nil
}

// replies receives what is sent to one address.
type replies struct {
	broker  *Broker
	address string
	topic   string
	next    map[int32]kgo.Offset // of each partition, what is to be read next
}

// begin records where the topic ends. If it was just created, not every broker knows it yet.
func (r *replies) begin(ctx context.Context) error {
	for n := 0; ; n++ {
		_, err := r.adopt(ctx, r.broker.admin.ListEndOffsets)
		if !lostTopic(err) || n == beginRepeats || !r.broker.pause(ctx, n) {
			return err
		}
	}
}

// adopt lists offsets of the topic, and begins to read there those partitions that are not read yet.
// It returns them.
func (r *replies) adopt(ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error)) (map[int32]kgo.Offset, error) {
	listed, err := list(ctx, r.topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, classify(fmt.Sprintf("list offsets of topic %q", r.topic), err)
	}
	added := make(map[int32]kgo.Offset)
	listed.Each(func(o kadm.ListedOffset) {
		if _, known := r.next[o.Partition]; !known {
			added[o.Partition] = kgo.NewOffset().At(o.Offset)
		}
	})
	maps.Copy(r.next, added)
	return added, nil
}

// Subscribe implements [contract.Subscriber]. Unsettled deliveries are not redelivered after it
// returns.
func (r *replies) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	switch {
	case prefetch < 1:
		return invalidf("prefetch", "is %d; it must be at least 1", prefetch)
	case ctx.Err() != nil:
		return nil
	case !r.broker.begin():
		return waybill.UnavailableError(errClosed)
	}
	defer r.broker.runs.Done()
	in := &inflow{queue: handover.New(prefetch, func(*reply) bool { return true }), quota: make(chan struct{}, prefetch)}
	receiving, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.receive(receiving, in)
	}()
	defer func() {
		stop()
		<-over
	}()
	return in.queue.Serve(ctx, r.broker.done, waybill.UnavailableError(errClosed), func(d *reply) { deliver(d) })
}

// receive reads until ctx ends. A topic that was removed is read from its start, once it exists again.
func (r *replies) receive(ctx context.Context, in *inflow) {
	for n := 1; ctx.Err() == nil; n++ {
		err := r.read(ctx, in)
		if lostTopic(err) {
			err = r.renew(ctx)
		}
		if waybill.IsPermanent(err) {
			in.queue.Fail(err)
			return
		}
		if err != nil && !r.broker.pause(ctx, n) {
			return
		}
	}
}

// renew recreates the topic, or finds it recreated.
func (r *replies) renew(ctx context.Context) error {
	r.broker.topics.forget(r.topic)
	if err := r.broker.topics.need(ctx, []string{r.topic}); err != nil {
		return err
	}
	clear(r.next)
	_, err := r.adopt(ctx, r.broker.admin.ListStartOffsets)
	return err
}

// read reads until ctx ends or the cluster refuses.
func (r *replies) read(ctx context.Context, in *inflow) error {
	client, err := kgo.NewClient(r.broker.cfg.options(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.topic: r.next}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(fetchWait),
	)...)
	if err != nil {
		return invalidf("Options", "are refused by the client library: %v", err)
	}
	defer client.Close()
	for ctx.Err() == nil {
		if err := r.poll(ctx, client, in); err != nil {
			return err
		}
		added, err := r.adopt(ctx, r.broker.admin.ListStartOffsets)
		if err == nil && len(added) > 0 {
			client.AddConsumePartitions(map[string]map[int32]kgo.Offset{r.topic: added})
		}
	}
	return nil
}

// poll reads for a while.
func (r *replies) poll(ctx context.Context, client *kgo.Client, in *inflow) error {
	ctx, cancel := context.WithTimeout(ctx, adoptInterval)
	defer cancel()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			if err := verdict("receive replies", e.Err); err != nil {
				return err
			}
		}
		for records := fetches.RecordIter(); !records.Done(); {
			record := records.Next()
			if string(record.Key) == r.address && !in.take(ctx, &reply{replies: r, in: in, record: record}) {
				return nil // read again from here
			}
			r.next[record.Partition] = kgo.NewOffset().At(record.Offset + 1)
		}
	}
	return nil
}

// lostTopic reports whether err says that a topic is gone, or was recreated.
func lostTopic(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}

// inflow is what one Subscribe has received.
type inflow struct {
	queue *handover.Queue[*reply]
	quota chan struct{} // one value for each reply that is not settled
}

// take queues a reply when there is room, and reports false if ctx ends before.
func (in *inflow) take(ctx context.Context, d *reply) bool {
	select {
	case in.quota <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	in.queue.Push(d)
	return true
}
