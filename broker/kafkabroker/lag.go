package kafkabroker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

var _ contract.Lagger = (*subscriber)(nil)

// Lag implements [contract.Lagger]: the messages after the committed offsets of the group.
// Kafka does not know what a consumer holds: held messages, and those that wait for a retry or
// were acknowledged out of order, are counted too.
func (s *subscriber) Lag(ctx context.Context) (contract.Lag, error) {
	memberships, err := membershipsOf(s.broker.cfg.TopicPrefix, s.subscription)
	if err != nil {
		return contract.Lag{}, err
	}
	return brokerkit.Lag(memberships, func(m membership) (int64, error) {
		n, err := s.broker.lag(ctx, m)
		return n, classify(fmt.Sprintf("count what waits for group %q", m.group), err)
	})
}

// lag counts the messages that wait in the topics of a membership, which may not exist.
func (b *Broker) lag(ctx context.Context, m membership) (int64, error) {
	known, err := b.knows(ctx, m.group)
	if err != nil || !known {
		return 0, err
	}
	committed, err := b.admin.FetchOffsets(ctx, m.group)
	if err != nil {
		return 0, err
	}
	starts, err := b.admin.ListStartOffsets(ctx, m.topics...)
	if err != nil {
		return 0, err
	}
	ends, err := b.admin.ListCommittedOffsets(ctx, m.topics...)
	if err != nil {
		return 0, err
	}
	var n int64
	ends.Each(func(end kadm.ListedOffset) {
		if end.Err != nil {
			return // the topic does not exist
		}
		from := end.Offset // DeliverNew
		if start, ok := starts.Lookup(end.Topic, end.Partition); ok && start.Err == nil {
			at, ok := committed.Lookup(end.Topic, end.Partition)
			switch {
			case ok && at.At >= 0:
				from = max(at.At, start.Offset)
			case !b.cfg.DeliverNew:
				from = start.Offset
			}
		}
		n += max(end.Offset-from, 0)
	})
	return n, nil
}

// knows reports whether the cluster knows a group.
func (b *Broker) knows(ctx context.Context, group string) (bool, error) {
	described, err := b.admin.DescribeGroups(ctx, group)
	if err != nil {
		return false, err
	}
	return described[group].State != "Dead" && described[group].Err == nil, nil
}
