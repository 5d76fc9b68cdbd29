package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

var _ broker.Topology = (*Broker)(nil)

// The kinds of [broker.Step].
const (
	kindStream = "stream"
	kindGroup  = "group"
)

// Plan implements [broker.Topology]. A group is named after its stream and itself. A key of another
// type where a stream should be is a conflict.
func (b *Broker) Plan(ctx context.Context, w broker.Wanted) ([]broker.Step, error) {
	return brokerkit.Plan(b.plan(ctx, w))
}

// Apply implements [broker.Topology]. A stream without groups accepts messages once it exists, and
// keeps them for later groups.
func (b *Broker) Apply(ctx context.Context, w broker.Wanted) ([]broker.Step, error) {
	return brokerkit.Apply(b.plan(ctx, w))
}

func (b *Broker) plan(ctx context.Context, w broker.Wanted) (plan []brokerkit.Part, _ error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	wanted, err := b.wanted(w)
	if err != nil {
		return nil, err
	}
	for _, s := range wanted {
		parts, err := b.planStream(ctx, s)
		if err != nil {
			return nil, err
		}
		plan = append(plan, parts...)
	}
	return plan, nil
}

// wantedStream is a stream with the groups that it needs.
type wantedStream struct {
	stream string
	groups []string
}

// wanted returns the streams that w needs, each once.
func (b *Broker) wanted(w broker.Wanted) ([]wantedStream, error) {
	var list []wantedStream
	add := func(stream, group string) {
		i := slices.IndexFunc(list, func(s wantedStream) bool { return s.stream == stream })
		if i < 0 {
			i = len(list)
			list = append(list, wantedStream{stream: stream})
		}
		if group != "" && !slices.Contains(list[i].groups, group) {
			list[i].groups = append(list[i].groups, group)
		}
	}
	for _, topic := range w.Topics {
		add(topicStream(b.cfg.Prefix, topic), "")
	}
	for _, to := range w.Destinations {
		add(destinationStream(b.cfg.Prefix, to), sharedGroup)
	}
	for _, s := range w.Subscriptions {
		sources, err := sourcesOf(b.cfg.Prefix, s)
		if err != nil {
			return nil, err
		}
		for _, src := range sources {
			add(src.stream, src.group)
		}
	}
	return list, nil
}

func (b *Broker) planStream(ctx context.Context, s wantedStream) ([]brokerkit.Part, error) {
	kind, err := b.client.Type(ctx, s.stream).Result()
	if err != nil {
		return nil, classify("look at a key", err)
	}
	step := broker.Step{Kind: kindStream, Name: s.stream, Action: broker.Keep}
	var there []redis.XInfoGroup
	switch kind {
	case "stream":
		if there, err = b.client.XInfoGroups(ctx, s.stream).Result(); err != nil {
			return nil, classify("look at the groups of a stream", err)
		}
	case "none":
		step.Action, step.Detail = broker.Create, "an empty stream"
	default:
		step.Action, step.Detail = broker.Conflict, fmt.Sprintf("the key is a %s, not a stream", kind)
		return []brokerkit.Part{{Step: step}}, nil
	}
	plan := []brokerkit.Part{{Step: step, Make: func() error {
		if len(s.groups) > 0 {
			return nil // the first of them creates it
		}
		return b.createStream(ctx, s.stream)
	}}}
	for _, group := range s.groups {
		step := broker.Step{Kind: kindGroup, Name: s.stream + " " + group, Action: broker.Keep}
		if !slices.ContainsFunc(there, func(g redis.XInfoGroup) bool { return g.Name == group }) {
			step.Action, step.Detail = broker.Create, "begins with what the stream holds"
		}
		plan = append(plan, brokerkit.Part{Step: step, Make: func() error { return b.createGroup(ctx, s.stream, group) }})
	}
	return plan, nil
}

// createStream creates an empty stream, which Redis does only for a group.
func (b *Broker) createStream(ctx context.Context, stream string) error {
	const passing = "(created)"
	if err := b.createGroup(ctx, stream, passing); err != nil {
		return err
	}
	return classify("create a stream", b.client.XGroupDestroy(ctx, stream, passing).Err())
}

// declare creates the stream and the group of a source, if they are missing.
func (b *Broker) declare(ctx context.Context, s source) error {
	err := b.createGroup(ctx, s.stream, s.group)
	if err == nil && s.replies() {
		err = b.prolong(ctx, s)
	}
	return err
}

func (b *Broker) createGroup(ctx context.Context, stream, group string) error {
	err := b.client.XGroupCreateMkStream(ctx, stream, group, "0").Err()
	if err == nil || redis.HasErrorPrefix(err, "BUSYGROUP") {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return classify(fmt.Sprintf("create group %q of %q", group, stream), err)
}
