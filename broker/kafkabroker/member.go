package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
)

const (
	// leaveTimeout bounds the last commit and the departure of a member.
	leaveTimeout = 5 * time.Second

	// fetchWait is how long the cluster may wait for messages before it answers a fetch. The client
	// library has one fetch in flight at each node: partitions that are taken over, or resumed, are
	// part of the next one.
	fetchWait = 500 * time.Millisecond

	// assignTimeout bounds the request for the end offset of a new partition.
	assignTimeout = 5 * time.Second
)

// member takes part in one group of Kafka for one run.
type member struct {
	run        *run
	membership membership
	client     *kgo.Client
	quit       context.CancelFunc
	polling    sync.WaitGroup

	// regulating is held while fetches are paused or resumed. It is taken before the run's
	// lock, and never within a callback of the client.
	regulating sync.Mutex

	// Guarded by the run.
	partitions map[place]*partition
	joined     *kgo.Client // client, once the group has assigned partitions, which may be before NewClient has returned
}

// join starts a member.
func (r *run) join(ms membership) error {
	m := &member{run: r, membership: ms, partitions: make(map[place]*partition)}
	cfg := r.broker.cfg
	start := kgo.NewOffset().AtStart()
	if cfg.DeliverNew {
		start = kgo.NewOffset().AtEnd()
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(ms.group),
		kgo.ConsumeTopics(ms.topics...),
		kgo.ConsumeResetOffset(start),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(fetchWait),
		kgo.KeepControlRecords(), // or the last one of a partition would count as lag forever
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.BlockRebalanceOnPoll(),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(cfg.CommitInterval),
		kgo.OnPartitionsAssigned(m.assigned),
		kgo.OnPartitionsRevoked(m.revoked),
		kgo.OnPartitionsLost(m.lost),
	}
	if cfg.InstanceID != "" {
		options = append(options, kgo.InstanceID(cfg.InstanceID))
	}
	if r.takes != nil {
		options = append(options, kgo.AdjustFetchOffsetsFn(m.take))
	}
	var err error
	if m.client, err = kgo.NewClient(cfg.options(options...)...); err != nil {
		return invalidf("Options", "are refused by the client library: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.quit = cancel
	m.polling.Go(func() { m.poll(ctx) })
	r.members = append(r.members, m)
	return nil
}

// poll receives until ctx is done. Between a poll and AllowRebalance no partition is assigned or
// revoked, so that a record is never filed under a partition that was revoked meanwhile.
func (m *member) poll(ctx context.Context) {
	for ctx.Err() == nil {
		if full := m.run.full(); full != nil {
			select {
			case <-full:
			case <-ctx.Done():
			}
			continue
		}
		fetches := m.client.PollRecords(ctx, m.run.prefetch)
		for _, e := range fetches.Errors() {
			if err := m.verdict(e); err != nil {
				m.run.queue.Fail(err)
			}
		}
		received, advanced := m.file(fetches)
		m.run.queue.Push(received...)
		for _, p := range advanced {
			m.mark(p)
		}
		m.client.AllowRebalance()
		m.regulate()
	}
}

// file returns what was received and may be handed out, and the partitions of which more may be committed: the end
// of a transaction is a record, but not a message.
func (m *member) file(fetches kgo.Fetches) (received []*delivery, advanced []*partition) {
	m.run.mu.Lock()
	defer m.run.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		p := m.partitions[place{r.Topic, r.Partition}]
		if p == nil {
			return // no longer ours
		}
		if p.back(r) {
			m.run.queue.Fail(wentBack(r))
			return
		}
		d := &delivery{partition: p, record: r}
		if r.Attrs.IsControl() {
			p.skip(d)
			if p.advance() {
				advanced = append(advanced, p)
			}
			return
		}
		if p.add(d) {
			received = append(received, d)
		}
	})
	return received, advanced
}

// final are the errors that end a subscription: retrying would not resolve them, or nobody would
// notice them.
var final = []*kerr.Error{
	kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.FencedInstanceID,
	kerr.InvalidGroupID, kerr.InvalidSessionTimeout, kerr.InconsistentGroupProtocol,
	kerr.UnknownTopicOrPartition, kerr.UnknownTopicID,
}

// verdict returns the error that ends the subscription, nil if waiting may resolve it.
func (m *member) verdict(e kgo.FetchError) error {
	return verdict(fmt.Sprintf("receive for group %q", m.membership.group), e.Err)
}

// verdict returns err, with what was being done, if it is final.
func verdict(doing string, err error) error {
	for _, f := range final {
		if errors.Is(err, f) {
			return waybill.PermanentError(waybill.ReasonRejected, fmt.Errorf("kafkabroker: %s: %w", doing, err))
		}
	}
	return nil
}

// regulate pauses the partitions whose window is full and resumes those that have room.
func (m *member) regulate() {
	m.regulating.Lock()
	defer m.regulating.Unlock()
	pause, resume := m.flows()
	if len(pause) > 0 {
		m.client.PauseFetchPartitions(pause)
	}
	if len(resume) > 0 {
		m.client.ResumeFetchPartitions(resume)
	}
}

func (m *member) flows() (pause, resume map[string][]int32) {
	pause, resume = make(map[string][]int32), make(map[string][]int32)
	m.run.mu.Lock()
	defer m.run.mu.Unlock()
	for at, p := range m.partitions {
		switch on, off := p.flow(m.run.broker.cfg.Window); {
		case on:
			pause[at.topic] = append(pause[at.topic], at.partition)
		case off:
			resume[at.topic] = append(resume[at.topic], at.partition)
		}
	}
	return pause, resume
}

// mark tells the client what may be committed.
func (m *member) mark(p *partition) {
	m.run.mu.Lock()
	next, client := p.next, m.joined
	m.run.mu.Unlock()
	client.MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset{p.topic: {p.partition: next}})
}

// leave commits, leaves the group and ends the member.
func (m *member) leave() {
	m.quit()
	m.polling.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	m.client.AllowRebalance()
	_ = m.client.CommitMarkedOffsets(ctx) // what it cannot commit is redelivered
	_ = m.client.LeaveGroupContext(ctx)   // else the session runs out
	m.client.CloseAllowingRebalance()
	m.run.mu.Lock()
	list := slices.Collect(maps.Values(m.partitions))
	m.run.mu.Unlock()
	m.drop(list, true)
}

// commitLate commits what was acknowledged after its partition was released. That works while no
// other consumer has the group, as after a Subscribe that has returned; what another one has
// committed stays.
func (m *member) commitLate(ctx context.Context, p *partition, advanced bool) error {
	m.run.mu.Lock()
	next, stopping := p.next, m.run.stopping
	m.run.mu.Unlock()
	if !stopping {
		return waybill.UnavailableError(errMoved)
	}
	if !advanced {
		return nil
	}
	admin := m.run.broker.admin
	at, err := admin.FetchOffsets(ctx, m.membership.group)
	if err != nil {
		return classify("commit", err)
	}
	if now, ok := at.Lookup(p.topic, p.partition); ok && now.At >= next.Offset {
		return nil
	}
	var offsets kadm.Offsets
	offsets.AddOffset(p.topic, p.partition, next.Offset, next.Epoch)
	err = admin.CommitAllOffsets(ctx, m.membership.group, offsets)
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) {
		err = errMoved
	}
	return classify("commit", err)
}
