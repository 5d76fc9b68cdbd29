package kafkabroker

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

const (
	// progressPartitions is how many lanes a store has; each has the partition of its number.
	progressPartitions = 64

	// progressWindow is how many messages of a lane stay recorded. It is at least what a relay
	// holds, and so what can be committed and not settled when it dies.
	progressWindow = 10_000

	// progressStep is how many more messages there may be before the oldest are dropped.
	progressStep = 1000
)

// rowID identifies one life of a row (from enqueue or requeue on) at one destination, in 16 bytes.
type rowID [16]byte

// idOf returns the same for all attempts of one life. The position tells apart messages that were
// enqueued under one id; the deduplication id tells apart lives, and stores that count from 1.
func idOf(m contract.Outgoing) rowID {
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:], uint64(m.Row.Position))
	binary.BigEndian.PutUint64(numbers[8:], uint64(len(m.Row.Destination)))
	h := sha256.New()
	h.Write(numbers[:])
	h.Write([]byte(m.Row.Destination))
	h.Write([]byte(m.DedupID))
	return rowID(h.Sum(nil))
}

// progressRecord says that ids were published by the transaction that it is part of. Without ids it
// only marks a position.
func progressRecord(topic string, lane int, ids []rowID) *kgo.Record {
	value := make([]byte, 0, len(ids)*len(rowID{}))
	for _, id := range ids {
		value = append(value, id[:]...)
	}
	return &kgo.Record{Topic: topic, Partition: int32(lane), Value: value}
}

func idsOf(r *kgo.Record) []rowID {
	var ids []rowID
	for value := r.Value; len(value) >= len(rowID{}); value = value[len(rowID{}):] {
		ids = append(ids, rowID(value))
	}
	return ids
}

// progress is what is recorded of one lane.
type progress struct {
	known   map[rowID]struct{}
	entries []progressEntry // by offset
	count   int             // of ids
}

type progressEntry struct {
	offset int64
	ids    []rowID
}

func newProgress() *progress { return &progress{known: make(map[rowID]struct{})} }

func (p *progress) has(id rowID) bool {
	_, ok := p.known[id]
	return ok
}

func (p *progress) add(offset int64, ids []rowID) {
	p.entries = append(p.entries, progressEntry{offset, ids})
	p.count += len(ids)
	for _, id := range ids {
		p.known[id] = struct{}{}
	}
}

// cut drops the oldest entries once there are many beyond the window, and returns the offset before
// which nothing is needed any longer.
func (p *progress) cut() (before int64, ok bool) {
	if p.count < progressWindow+progressStep {
		return 0, false
	}
	for p.count-len(p.entries[0].ids) >= progressWindow {
		for _, id := range p.entries[0].ids {
			delete(p.known, id)
		}
		p.count -= len(p.entries[0].ids)
		p.entries = p.entries[1:]
	}
	return p.entries[0].offset, true
}

// progressTopic is the name of the topic of the records, "" if there is none.
func (c Config) progressTopic() string {
	if c.TransactionalID == "" {
		return ""
	}
	return c.TopicPrefix + progressToken + c.TransactionalID
}

// partitionsOf returns how many partitions a topic is created with, 0 for the cluster's default.
func (c Config) partitionsOf(topic string) int {
	if topic == c.progressTopic() {
		return progressPartitions
	}
	return c.Partitions
}

// settingsOf returns what a topic is created with. The topic of the records keeps them all: those
// no longer needed are deleted by offset, in small segments because only whole ones free their
// space. The topic of replies keeps them for longer than a client that has lost its connection
// waits.
func (c Config) settingsOf(topic string) map[string]*string {
	text := func(s string) *string { return &s }
	switch topic {
	case c.progressTopic():
		return map[string]*string{
			cleanupPolicyKey:  text("delete"),
			"retention.ms":    text("-1"),
			"retention.bytes": text("-1"),
			"segment.bytes":   text("16777216"),
		}
	case c.replyTopic():
		return map[string]*string{
			cleanupPolicyKey: text("delete"),
			"retention.ms":   text(replyAge),
			"segment.ms":     text(replyAge),
		}
	}
	return nil
}

// lookProgress makes sure that a lane can be recorded.
func (t *topics) lookProgress(ctx context.Context, lane int) error {
	name := t.cfg.progressTopic()
	details, err := t.describe(ctx, []string{name})
	if err != nil {
		return err
	}
	detail, found, err := detailOf(details, name)
	switch {
	case err != nil:
		return err
	case !found:
		if !t.cfg.CreateTopics {
			return waybill.UnavailableError(fmt.Errorf("kafkabroker: topic %q, which the exactly-once relay needs, does not exist", name))
		}
		return t.create(ctx, name)
	case lane >= len(detail.Partitions):
		return waybill.UnavailableError(fmt.Errorf("kafkabroker: topic %q has %d partitions, lane %d needs %d", name, len(detail.Partitions), lane, lane+1))
	}
	return nil
}

// laneOrKey is how the client of a lane finds a record's partition: the lane's for its progress
// records, that of the configured partitioner for messages.
type laneOrKey struct {
	kgo.Partitioner
	progress string
}

// ForTopic implements [kgo.Partitioner].
func (p laneOrKey) ForTopic(topic string) kgo.TopicPartitioner {
	if topic == p.progress {
		return kgo.ManualPartitioner().ForTopic(topic)
	}
	return p.Partitioner.ForTopic(topic)
}

// deleteBefore drops the records of a lane before an offset. If that fails the next call does it:
// until then there is more to read.
func deleteBefore(ctx context.Context, client *kgo.Client, topic string, lane int, offset int64) {
	var offsets kadm.Offsets
	offsets.AddOffset(topic, int32(lane), offset, -1)
	_, _ = kadm.NewClient(client).DeleteRecords(ctx, offsets)
}
