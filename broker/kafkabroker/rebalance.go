package kafkabroker

import (
	"context"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// assigned takes partitions over. It asks for their end offsets, because what is before them may
// have been delivered to another consumer of the group.
func (m *member) assigned(ctx context.Context, client *kgo.Client, added map[string][]int32) {
	ends := m.ends(ctx, added)
	m.run.mu.Lock()
	defer m.run.mu.Unlock()
	m.joined = client
	for topic, numbers := range added {
		for _, n := range numbers {
			at := place{topic, n}
			p := &partition{place: at, member: m, oldBelow: math.MaxInt64}
			if end, ok := ends[at]; ok {
				p.oldBelow = end
			}
			m.partitions[at] = p
		}
	}
}

// ends returns where partitions end, as far as the cluster reports it.
func (m *member) ends(ctx context.Context, of map[string][]int32) map[place]int64 {
	ctx, cancel := context.WithTimeout(ctx, assignTimeout)
	defer cancel()
	var topics []string
	for topic := range of {
		topics = append(topics, topic)
	}
	ends := make(map[place]int64)
	if len(topics) == 0 {
		return ends
	}
	listed, _ := m.run.broker.admin.ListEndOffsets(kadm.WithAuthorizedOps(ctx), topics...) // what it does not report is missing
	for topic, numbers := range of {
		for _, n := range numbers {
			if end, ok := listed.Lookup(topic, n); ok && end.Err == nil {
				ends[place{topic, n}] = end.Offset
			}
		}
	}
	return ends
}

// revoked releases partitions: no more of them is handed out, deliveries being handled have
// DrainTimeout to be settled, and what is acknowledged then is committed.
func (m *member) revoked(ctx context.Context, client *kgo.Client, taken map[string][]int32) {
	list := m.give(taken, false)
	m.drain(ctx, list)
	for _, p := range list {
		if p.next.Offset > 0 {
			m.mark(p)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	_ = client.CommitMarkedOffsets(ctx) // what it cannot commit is redelivered
	m.give(taken, true)
}

// lost drops partitions that other members may have by now.
func (m *member) lost(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
	m.give(taken, true)
}

// give drops those of taken partitions that are there, and returns them.
func (m *member) give(taken map[string][]int32, forGood bool) (list []*partition) {
	m.run.mu.Lock()
	for topic, numbers := range taken {
		for _, n := range numbers {
			if p := m.partitions[place{topic, n}]; p != nil {
				list = append(list, p)
			}
		}
	}
	m.run.mu.Unlock()
	m.drop(list, forGood)
	return list
}

// drop hands out no more of partitions, and forgets the partitions themselves if forGood is set.
func (m *member) drop(list []*partition, forGood bool) {
	m.run.mu.Lock()
	for _, p := range list {
		p.retire()
		if forGood {
			p.gone = true
			delete(m.partitions, p.place)
		}
	}
	m.run.mu.Unlock()
	m.run.forget(list)
}

// drain waits until nothing of list is handed out, the time is over, or the run ends.
func (m *member) drain(ctx context.Context, list []*partition) {
	timeout := time.NewTimer(m.run.broker.cfg.DrainTimeout)
	defer timeout.Stop()
	for {
		busy, settled := m.busy(list)
		if !busy {
			return
		}
		select {
		case <-settled:
		case <-timeout.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (m *member) busy(list []*partition) (bool, <-chan struct{}) {
	m.run.mu.Lock()
	defer m.run.mu.Unlock()
	for _, p := range list {
		if p.handedOut() > 0 && !m.run.stopping {
			return true, m.run.settled
		}
	}
	return false, nil
}
