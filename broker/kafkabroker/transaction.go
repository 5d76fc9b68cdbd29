package kafkabroker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/internal/results"
)

// transactionTimeout is after how long the cluster aborts a transaction whose producer has died, if
// no other one replaces it. Until then consumers do not read past its records.
const transactionTimeout = 15 * time.Second

// laneSession is the one producer that the cluster lets commit for a lane: when it begins, an earlier
// one is fenced, an open transaction of that is aborted, and what was committed is read. After any
// error it is dropped and another one begins. It is not safe for concurrent use.
type laneSession struct {
	client   *kgo.Client
	progress *progress
	topic    string // of the records
	lane     int

	ctx     context.Context // ends when the session is lost
	lose    context.CancelCauseFunc
	strikes atomic.Int32 // connections that ended during a publish, since the last commit
}

func (o *outbox) newSession(lane int) (*laneSession, error) {
	s := &laneSession{progress: newProgress(), topic: o.cfg.progressTopic(), lane: lane}
	s.ctx, s.lose = context.WithCancelCause(o.ctx)
	options := append(o.cfg.options(o.topics.producing()...),
		kgo.WithHooks(s),
		kgo.MetadataMinAge(minMetadataAge),
		kgo.TransactionalID(o.cfg.transactionalID(lane)),
		kgo.TransactionTimeout(transactionTimeout),
		kgo.RecordPartitioner(laneOrKey{o.partitioner, s.topic}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: {int32(lane): kgo.NewOffset().AtStart()}}),
	)
	var err error
	s.client, err = kgo.NewClient(options...)
	return s, err
}

// begin fences earlier producers of the lane and reads what they have committed. It does so by
// committing a mark: whoever can commit is the only one that can, and what is before the mark is
// all there is.
func (s *laneSession) begin(ctx context.Context) error {
	ctx, end := brokerkit.Join(ctx, s.ctx)
	defer end()
	mark := progressRecord(s.topic, s.lane, nil)
	if _, err := s.transact(ctx, []*kgo.Record{mark}); err != nil {
		return err
	}
	defer s.client.RemoveConsumePartitions(map[string][]int32{s.topic: {int32(s.lane)}})
	for read := int64(-1); read < mark.Offset; {
		fetches := s.client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return failed(ctx, "read what is published", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			s.progress.add(r.Offset, idsOf(r))
			read = r.Offset
		})
	}
	s.progress.cut()
	return nil
}

// publish commits records together with ids, which are then recorded.
func (s *laneSession) publish(ctx context.Context, records []*kgo.Record, ids []rowID) (errs []error, err error) {
	ctx, end := brokerkit.Join(ctx, s.ctx)
	defer end()
	noted := progressRecord(s.topic, s.lane, ids)
	errs, err = s.transact(ctx, append(records[:len(records):len(records)], noted))
	if err == nil {
		s.progress.add(noted.Offset, ids)
	}
	return errs, err
}

// transact commits records, all or none. If single ones were refused, their errors are in errs.
func (s *laneSession) transact(ctx context.Context, records []*kgo.Record) (errs []error, err error) {
	if err := s.client.BeginTransaction(); err != nil {
		return nil, failed(ctx, "begin a transaction", err)
	}
	if errs, err = s.produce(ctx, records); err == nil {
		err = errors.Join(errs...)
	}
	if err != nil {
		return errs, failed(ctx, "publish in a transaction", err)
	}
	if err := s.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return nil, failed(ctx, "commit a transaction", err)
	}
	s.strikes.Store(0)
	return nil, nil
}

// produce hands records to the client library and returns one result for each, or an error if ctx
// ends before they are known.
func (s *laneSession) produce(ctx context.Context, records []*kgo.Record) ([]error, error) {
	answers := results.New(len(records))
	for i, r := range records {
		s.client.TryProduce(context.Background(), r, func(_ *kgo.Record, err error) { answers.Resolve(i, err) })
	}
	select {
	case <-answers.Done():
		return answers.All(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// failed gives an error its kind, or returns why ctx has ended.
func failed(ctx context.Context, doing string, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return classify(doing, err)
	case waybill.IsUnavailable(cause):
		return cause
	default:
		return unconfirmed(cause)
	}
}

// OnBrokerE2E implements [kgo.HookBrokerE2E]: as with [watch], a message that ends each connection
// that it is sent on is not repeated forever.
func (s *laneSession) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	if key == produceKey && e.Err() != nil && s.strikes.Add(1) >= maxStrikes {
		s.lose(connectionLost())
	}
}

// outdated reports whether an error says that a topic has changed since it was looked up.
func outdated(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.MessageTooLarge)
}
