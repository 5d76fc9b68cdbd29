package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

var _ broker.Topology = (*Broker)(nil)

// Plan implements [broker.Topology]: one stream, and a durable consumer for each topic of a group
// and for each destination. The stream's settings are compared with those that [Config] sets, not
// with defaults; AckWait is not, because each subscriber sets its own. A broker that was opened
// without [Config.DeclareNothing] has created the stream already.
//
// The error is an [*waybill.InvalidError] if w is wrong, else the reason why the server did not
// answer.
func (b *Broker) Plan(ctx context.Context, w broker.Wanted) ([]broker.Step, error) {
	return brokerkit.Plan(b.plan(ctx, w))
}

// Apply implements [broker.Topology]. It creates nothing before everything that exists has been
// checked, and nothing on a stream that is in conflict. A late error is returned together with
// the steps that were done.
func (b *Broker) Apply(ctx context.Context, w broker.Wanted) ([]broker.Step, error) {
	return brokerkit.Apply(b.plan(ctx, w))
}

func (b *Broker) plan(ctx context.Context, w broker.Wanted) ([]brokerkit.Part, error) {
	durables, err := b.cfg.durables(w)
	if err != nil {
		return nil, err
	}
	stream, err := b.planStream(ctx)
	if err != nil {
		return nil, err
	}
	plan := []brokerkit.Part{{Step: stream, Make: func() error {
		if stream.Action == broker.Add {
			return b.addSubject(ctx)
		}
		return b.createStream(ctx)
	}}}
	for _, d := range durables {
		step := broker.Step{Kind: "consumer", Name: d.name, Action: stream.Action, Detail: d.about}
		switch stream.Action {
		case broker.Conflict:
			step.Detail = "its stream is in conflict"
		case broker.Keep, broker.Add:
			if step, err = b.planDurable(ctx, d); err != nil {
				return nil, err
			}
		}
		plan = append(plan, brokerkit.Part{Step: step, Make: func() error { return b.create(ctx, d) }})
	}
	return plan, nil
}

// durables returns the durable consumers that w needs, each once.
func (c Config) durables(w broker.Wanted) ([]durable, error) {
	for i, topic := range w.Topics {
		if _, ok := subjectOf(c.SubjectPrefix, topic, ""); !ok {
			return nil, badAddress(fmt.Sprintf("Wanted.Topics[%d]", i))
		}
	}
	subs := slices.Clone(w.Subscriptions)
	for _, to := range w.Destinations {
		subs = append(subs, consumer.Subscription{Group: "any", To: to}) // a destination's has no group
	}
	var list []durable
	for _, sub := range subs {
		durables, err := durablesOf(c.SubjectPrefix, sub)
		if err != nil {
			return nil, err
		}
		list = append(list, durables...)
	}
	return brokerkit.Unique(list, func(d durable) durable { return d }), nil
}

func (b *Broker) planStream(ctx context.Context) (broker.Step, error) {
	have, err := b.streamInfo(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return broker.Step{}, err
	}
	step := broker.Step{Kind: "stream", Name: b.cfg.Stream, Action: broker.Keep}
	if have != nil {
		if differences := differences(b.set, have); len(differences) > 0 {
			step.Action, step.Detail = broker.Conflict, strings.Join(differences, "; ")
			return step, nil
		}
		if b.cfg.heldBy(have) {
			return step, nil
		}
	}
	other, err := b.overlapping(ctx)
	switch {
	case err != nil:
		return step, err
	case other != "":
		step.Action = broker.Conflict
		step.Detail = fmt.Sprintf("stream %q holds part of %q, which can be in one stream only", other, b.cfg.all())
	case have != nil:
		step.Action = broker.Add
		step.Detail = fmt.Sprintf("subject %q", b.cfg.all())
	default:
		step.Action = broker.Create
		step.Detail = fmt.Sprintf("subject %q, replicas: %d, max_age: %v, duplicate_window: %v",
			b.cfg.all(), b.cfg.Replicas, max(b.cfg.MaxAge, 0), b.cfg.DuplicateWindow)
	}
	return step, nil
}

// differences describes which settings of a stream differ from those that set specifies, and what
// makes the stream unfit for us.
func differences(set Config, have *jetstream.StreamConfig) (list []string) {
	differs := func(name string, wanted bool, have, want any) {
		if wanted && have != want {
			list = append(list, fmt.Sprintf("%s is %v, wanted is %v", name, have, want))
		}
	}
	differs("retention", have.Retention == jetstream.WorkQueuePolicy, "workqueue, which keeps a message for one group only", "limits")
	differs("no_ack", true, have.NoAck, false)
	differs("replicas", set.Replicas != 0, have.Replicas, set.Replicas)
	differs("max_age", set.MaxAge != 0, have.MaxAge, max(set.MaxAge, time.Duration(0)))
	differs("max_bytes", set.MaxBytes != 0, have.MaxBytes, set.MaxBytes)
	differs("duplicate_window", set.DuplicateWindow != 0, have.Duplicates, set.DuplicateWindow)
	return list
}

// overlapping returns a stream that holds part of our subjects, "" if there is none.
func (b *Broker) overlapping(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	names := b.js.StreamNames(ctx, jetstream.WithStreamListSubject(b.cfg.all()))
	found := ""
	for name := range names.Name() {
		found = name
	}
	if err := names.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return "", classify("list streams", err)
	}
	return found, nil
}

func (b *Broker) addSubject(ctx context.Context) error {
	have, err := b.streamInfo(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	have.Subjects = append(slices.Clone(have.Subjects), b.cfg.all())
	_, err = b.js.UpdateStream(ctx, *have)
	return classify(fmt.Sprintf("add subject %q to stream %q", b.cfg.all(), b.cfg.Stream), err)
}

func (b *Broker) planDurable(ctx context.Context, d durable) (broker.Step, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	step := broker.Step{Kind: "consumer", Name: d.name, Action: broker.Keep, Detail: d.about}
	have, err := b.durable(ctx, d)
	switch {
	case err != nil:
		return step, err
	case have == nil:
		step.Action = broker.Create
	case unfit(d, have) != "":
		step.Action, step.Detail = broker.Conflict, unfit(d, have)
	}
	return step, nil
}

// unfit says why a consumer with the name of d cannot serve it, "" if it can.
func unfit(d durable, have *jetstream.ConsumerConfig) string {
	switch {
	case have.DeliverSubject != "":
		return "it is a push consumer, wanted is a pull consumer"
	case have.FilterSubject != d.subject:
		return fmt.Sprintf("filter_subject is %q, wanted is %q", have.FilterSubject, d.subject)
	case have.AckPolicy != jetstream.AckExplicitPolicy:
		return fmt.Sprintf("ack_policy is %v, wanted is explicit", have.AckPolicy)
	case have.MaxDeliver != -1:
		return fmt.Sprintf("max_deliver is %d, wanted is -1: what was delivered so often would be lost", have.MaxDeliver)
	case have.MaxAckPending != -1:
		return fmt.Sprintf("max_ack_pending is %d, wanted is -1: what waits for a retry would stop the group", have.MaxAckPending)
	}
	return ""
}
