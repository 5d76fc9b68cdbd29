package kafkabroker

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

var (
	_ contract.OffsetSubscriber = (*subscriber)(nil)
	_ contract.PlacedDelivery   = (*delivery)(nil)
)

// takeFunc takes over a partition in the store of its progress, and returns where to begin.
type takeFunc = func(ctx context.Context, c contract.PartitionClaim) (contract.Progress, error)

// SubscribeAt implements [contract.OffsetSubscriber]. Offsets are committed to the group as well,
// so that its lag can be observed.
func (s *subscriber) SubscribeAt(ctx context.Context, prefetch int, take takeFunc, deliver func(contract.PlacedDelivery)) error {
	return s.subscribe(ctx, prefetch, take, func(d *delivery) { deliver(d) })
}

// Place implements [contract.PlacedDelivery].
func (d *delivery) Place() contract.Place {
	r := d.run()
	r.mu.Lock()
	defer r.mu.Unlock()
	place := contract.Place{
		Partition:     d.partition.member.named(d.partition.place),
		Offset:        d.record.Offset,
		Transactional: d.record.Attrs.IsTransactional(),
	}
	if d.partition.taken != nil {
		place.Taken = *d.partition.taken
	}
	return place
}

// named returns a place under its public name.
func (m *member) named(at place) inbox.Partition {
	return inbox.Partition{Group: m.membership.group, Topic: at.topic, Number: at.partition}
}

// take takes over the partitions that the group has assigned to this member, with the group's
// offsets in committed, and returns where to begin. The client library calls it after assigned,
// and cancels ctx when the group rebalances.
func (m *member) take(ctx context.Context, committed map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	ends, err := m.knownEnds(ctx, committed)
	if err != nil {
		return nil, err
	}
	for topic, offsets := range committed {
		for number, offset := range offsets {
			at := place{topic, number}
			progress, err := m.takeOne(ctx, at, m.claim(at, offset, ends[at]))
			if err != nil {
				return nil, err
			}
			offsets[number] = kgo.NewOffset().At(progress.Next)
		}
	}
	return committed, nil
}

// claim is what is known of a partition when it is taken.
func (m *member) claim(at place, committed kgo.Offset, end int64) contract.PartitionClaim {
	m.run.mu.Lock()
	client := m.joined
	m.run.mu.Unlock()
	id, generation := client.GroupMetadata()
	c := contract.PartitionClaim{
		Partition: m.named(at),
		Holder:    inbox.Holder{Generation: generation, Member: id},
		Committed: committed.EpochOffset().Offset,
		End:       end,
		Current:   func(ctx context.Context) (bool, error) { return m.current(ctx, id) },
		HasMessages: func(ctx context.Context, from, to int64) (bool, error) {
			return m.run.broker.hasMessages(ctx, at, from, to)
		},
	}
	if m.run.broker.cfg.DeliverNew {
		c.Start = end
	}
	return c
}

// takeOne repeats what waiting may resolve until ctx is done.
func (m *member) takeOne(ctx context.Context, at place, c contract.PartitionClaim) (contract.Progress, error) {
	for n := 1; ; n++ {
		progress, err := m.run.takes(ctx, c)
		switch {
		case err == nil:
			m.run.mu.Lock()
			defer m.run.mu.Unlock()
			if p := m.partitions[at]; p != nil {
				p.begin(progress)
			}
			return progress, nil
		case ctx.Err() != nil:
			return progress, ctx.Err()
		case !waybill.IsUnavailable(err) && !waybill.IsConflict(err):
			m.run.queue.Fail(err)
			return progress, err
		}
		if err := m.wait(ctx, n); err != nil {
			return progress, err
		}
	}
}

// knownEnds returns where partitions end, once the cluster has answered.
func (m *member) knownEnds(ctx context.Context, of map[string]map[int32]kgo.Offset) (map[place]int64, error) {
	numbers := make(map[string][]int32)
	wanted := 0
	for topic, offsets := range of {
		for number := range offsets {
			numbers[topic] = append(numbers[topic], number)
			wanted++
		}
	}
	for n := 1; ; n++ {
		if ends := m.ends(ctx, numbers); len(ends) == wanted {
			return ends, nil
		}
		if err := m.wait(ctx, n); err != nil {
			return nil, err
		}
	}
}

// wait waits before the attempt after the n-th. The error says that there is no further attempt.
func (m *member) wait(ctx context.Context, n int) error {
	if !m.run.broker.pause(ctx, n) {
		return waybill.UnavailableError(errClosed)
	}
	return ctx.Err()
}

// current reports whether the group has a member with the given id.
func (m *member) current(ctx context.Context, id string) (bool, error) {
	groups, err := m.run.broker.admin.DescribeGroups(ctx, m.membership.group)
	if err != nil {
		return false, fmt.Errorf("describe group: %w", err)
	}
	group := groups[m.membership.group]
	is := slices.ContainsFunc(group.Members, func(g kadm.DescribedGroupMember) bool { return g.MemberID == id })
	return is, group.Err
}

// wentBack is the error that ends a subscription to a partition whose offsets do not rise.
func wentBack(r *kgo.Record) error {
	return waybill.PermanentError(waybill.ReasonRejected, fmt.Errorf(
		"kafkabroker: partition %d of %q holds other messages before offset %d than it did: it has lost some, or was made again", r.Partition, r.Topic, r.Offset+1))
}
