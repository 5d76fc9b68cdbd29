package natsbroker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/request"
)

// durable names one durable consumer: the position of one group in one subject.
//
// There is one for each topic of a group, not one for all, even on servers that can filter by
// several subjects: so the set of topics may change, and the server be upgraded, without a new
// consumer that starts from the beginning.
type durable struct {
	name    string
	subject string
	about   string // for people who list consumers
	replies bool   // of a reply destination, which begins empty and is deleted with its client
}

// durablesOf returns the durables of a subscription. A destination has one whatever the
// group, so that each message sent to it goes to one group only.
func durablesOf(prefix string, s consumer.Subscription) ([]durable, error) {
	addresses, err := brokerkit.Addresses(s)
	if err != nil {
		return nil, err
	}
	var list []durable
	for _, a := range addresses {
		subject, ok := subjectOf(prefix, a.Topic, a.To)
		if !ok {
			return nil, badAddress(a.Field)
		}
		d := durable{name: durableName(s.Group, a.Topic, subject), subject: subject, about: fmt.Sprintf("waybill: group %q, topic %q", s.Group, a.Topic)}
		if a.To != "" {
			d.name, d.about, d.replies = durableName("", a.To, subject), fmt.Sprintf("waybill: destination %q", a.To), request.IsAddress(a.To)
		}
		list = append(list, d)
	}
	return list, nil
}

func badAddress(field string) error {
	return invalidf(field, "makes no NATS subject: tokens between dots must not be empty, "+
		"spaces, '*' and '>' are not allowed, nor is %q at the start of a topic", toToken)
}

// durableName returns a readable name that no other pair of group and subject has: the
// readable parts may coincide, the hash behind them does not.
func durableName(group, address, subject string) string {
	sum := sha256.Sum256([]byte(group + "\x00" + subject))
	if group == "" {
		group = "to"
	}
	return readable(group) + "-" + readable(address) + "-" + hex.EncodeToString(sum[:12])
}

// readable replaces what a consumer's name may not contain and truncates the rest to 64 bytes.
func readable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, s)
	return s[:min(len(s), 64)]
}

func (d durable) config(c Config) jetstream.ConsumerConfig {
	policy := jetstream.DeliverAllPolicy
	if c.DeliverNew || d.replies {
		policy = jetstream.DeliverNewPolicy
	}
	var expiry time.Duration // never
	if d.replies {
		expiry = request.Expiry
	}
	return jetstream.ConsumerConfig{
		Durable:       d.name,
		Description:   d.about,
		FilterSubject: d.subject,
		DeliverPolicy: policy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       c.AckWait,
		MaxDeliver:    -1,

		InactiveThreshold: expiry,

		// Messages that wait for a retry count as pending, so any limit would let enough of them
		// stop the group. The prefetch is kept by requesting no more than is free.
		MaxAckPending: -1,
	}
}

// declare creates the durable consumer if it is missing. Of one that exists only AckWait is
// updated; its position is kept. With DeclareNothing it does neither, except for reply
// destinations: an AckWait that is too short for this program is an error, because deliveries
// would expire under it.
func (b *Broker) declare(ctx context.Context, d durable) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	have, err := b.durable(ctx, d)
	switch {
	case err != nil:
		return err
	case have == nil && b.cfg.DeclareNothing && !d.replies:
		return fmt.Errorf("natsbroker: %w: %q of stream %q", jetstream.ErrConsumerNotFound, d.name, b.cfg.Stream)
	case have == nil:
		return b.create(ctx, d)
	case have.AckWait == b.cfg.AckWait, b.cfg.DeclareNothing && have.AckWait > b.cfg.AckWait:
		return nil
	case b.cfg.DeclareNothing:
		return invalidf("AckWait", "is %v, the durable consumer %q has only %v", b.cfg.AckWait, d.name, have.AckWait)
	}
	have.AckWait = b.cfg.AckWait
	_, err = b.js.UpdateConsumer(ctx, b.cfg.Stream, *have)
	return b.durableError("update", d, err)
}

// durable returns d as the server has it, nil if it does not exist.
func (b *Broker) durable(ctx context.Context, d durable) (*jetstream.ConsumerConfig, error) {
	c, err := b.js.Consumer(ctx, b.cfg.Stream, d.name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, b.durableError("look up", d, err)
	}
	return &c.CachedInfo().Config, nil
}

func (b *Broker) create(ctx context.Context, d durable) error {
	_, err := b.js.CreateConsumer(ctx, b.cfg.Stream, d.config(b.cfg))
	return b.durableError("create", d, err)
}

func (b *Broker) durableError(doing string, d durable, err error) error {
	return classify(fmt.Sprintf("%s consumer %q of stream %q", doing, d.name, b.cfg.Stream), err)
}
