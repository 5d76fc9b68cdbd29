package natsbroker

import (
	"context"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/guarantee"
)

var _ broker.Explainer = (*Broker)(nil)

// Explain implements [broker.Explainer]: all topics share the stream and its guarantees. The
// error wraps jetstream.ErrStreamNotFound if there is none.
func (b *Broker) Explain(ctx context.Context, _ string) ([]guarantee.Fact, error) {
	stream, err := b.streamInfo(ctx)
	if err != nil {
		return nil, err
	}
	return streamFacts(stream), nil
}

func streamFacts(s *jetstream.StreamConfig) []guarantee.Fact {
	replicas := guarantee.Fact{About: guarantee.Durability, Setting: "replicas", Value: strconv.Itoa(s.Replicas)}
	if s.Replicas >= 3 {
		replicas.Means, replicas.Survives = "a message outlives the loss of a minority of servers", guarantee.NodeLoss
	} else {
		replicas.Means, replicas.Survives = "a message is on one machine", guarantee.PowerLoss
		replicas.Stronger = "replicas: 3"
	}
	return append(append([]guarantee.Fact{replicas}, diskFacts(s)...), limitFacts(s)...)
}

// diskFacts say what of a message reaches a disk, and when.
func diskFacts(s *jetstream.StreamConfig) []guarantee.Fact {
	storage := guarantee.Fact{About: guarantee.Durability, Setting: "storage", Value: "memory",
		Means: "messages end with the server's process", Survives: guarantee.Nothing, Stronger: "storage: file"}
	if s.Storage == jetstream.MemoryStorage {
		return []guarantee.Fact{storage}
	}
	storage.Value, storage.Means = "file", "messages outlive the server's process"
	storage.Survives, storage.Stronger = guarantee.ProcessCrash, ""
	sync := guarantee.Fact{About: guarantee.Durability, Setting: "sync_interval",
		Means:    "what was confirmed since the disk was last synced, every 2 minutes unless set, is lost with the machine's power",
		Stronger: "sync_interval: always"}
	if s.Replicas >= 3 {
		storage.Survives = guarantee.NodeLoss
		sync.Means = "machines that lose their power together lose what none has synced, every 2 minutes unless set"
	}
	return []guarantee.Fact{storage, sync}
}

// limitFacts say what the stream drops or refuses by itself.
func limitFacts(s *jetstream.StreamConfig) []guarantee.Fact {
	age := guarantee.Fact{About: guarantee.Durability, Setting: "max_age", Value: s.MaxAge.String(), Survives: guarantee.NodeLoss,
		Means: "a group that has not fetched a message by then has lost it", Stronger: "max_age: longer than the longest absence of a group"}
	if s.MaxAge == 0 {
		age.Value, age.Means, age.Stronger = "none", "messages are kept for as long as there is room", ""
	}
	facts := []guarantee.Fact{age}
	if s.Discard == jetstream.DiscardOld && (s.MaxBytes > 0 || s.MaxMsgs > 0 || s.MaxMsgsPerSubject > 0) {
		facts = append(facts, guarantee.Fact{About: guarantee.Durability, Setting: "discard", Value: "old", Survives: guarantee.Nothing,
			Means: "a full stream drops its oldest messages, fetched or not", Stronger: "discard: new"})
	}
	return append(facts, guarantee.Fact{About: guarantee.Duplicates, Setting: "duplicate_window", Value: s.Duplicates.String(),
		Means: "a publish that is repeated within it is dropped; a later copy is delivered too"})
}
