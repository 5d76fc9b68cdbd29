package rabbitbroker

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

var _ broker.Topology = (*Broker)(nil)

// Plan implements [broker.Topology]. AMQP does not report which bindings exist, so the step of
// one is [broker.Ensure] unless its exchange or queue is missing. What exists is compared by
// declaring it as it is wanted, which changes nothing; only a thing that is deleted between the
// check whether it exists and this comparison is recreated. Retry queues are temporary, and are
// in no plan. A broker that was opened without [Config.DeclareNothing] has declared the exchange
// already.
//
// The error is an [*waybill.InvalidError] if w is wrong, else unavailable: the server did not
// answer, or refused to.
func (b *Broker) Plan(ctx context.Context, w broker.Wanted) ([]broker.Step, error) {
	return brokerkit.Plan(b.plan(ctx, w))
}

// Apply implements [broker.Topology]. It creates nothing before everything that exists has been
// checked. A late error is returned together with the steps that were done.
func (b *Broker) Apply(ctx context.Context, w broker.Wanted) ([]broker.Step, error) {
	return brokerkit.Apply(b.plan(ctx, w))
}

func (b *Broker) plan(ctx context.Context, w broker.Wanted) (plan []brokerkit.Part, err error) {
	if err := b.checkWanted(w); err != nil {
		return nil, err
	}
	actions := make(map[string]broker.Action) // by the ids of parts
	for _, p := range b.current().system(w) {
		step := broker.Step{Kind: p.kind, Name: p.title()}
		if p.kind == bindingPart {
			step.Action, step.Detail = bindingAction(actions[exchangePart+" "+p.exchange], actions[queuePart+" "+p.name])
		} else if step.Action, step.Detail, err = b.compare(ctx, p); err != nil {
			return nil, err
		}
		actions[p.id()] = step.Action
		plan = append(plan, brokerkit.Part{Step: step, Make: func() error {
			if _, err := b.declarePart(ctx, p); err != nil {
				return b.topologyError(p, err)
			}
			return nil
		}})
	}
	return plan, nil
}

func (b *Broker) checkWanted(w broker.Wanted) error {
	for i, name := range w.Destinations {
		field := fmt.Sprintf("Wanted.Destinations[%d]", i)
		if name == "" {
			return invalid(field, "is empty")
		}
		if err := validName(field, name); err != nil {
			return err
		}
	}
	for _, sub := range w.Subscriptions {
		if err := (&subscriber{broker: b, sub: sub}).validate(1); err != nil {
			return err
		}
	}
	return nil
}

// compare finds out what an exchange or a queue needs.
func (b *Broker) compare(ctx context.Context, p part) (broker.Action, string, error) {
	switch err := b.ask(ctx, p.find); {
	case refusedWith(err, amqp.NotFound) != nil:
		return broker.Create, p.made(), nil
	case refusedWith(err, amqp.ResourceLocked) != nil:
		return broker.Conflict, refusedWith(err, amqp.ResourceLocked).Reason, nil
	case err != nil:
		return "", "", b.topologyError(p, err)
	}
	made, err := b.declarePart(ctx, p)
	if refusal := refusedWith(err, amqp.PreconditionFailed); refusal != nil {
		return broker.Conflict, refusal.Reason, nil
	}
	if err != nil {
		return "", "", b.topologyError(p, err)
	}
	if p.kind != queuePart {
		return broker.Keep, "", nil
	}
	return broker.Keep, b.current().remark(made), nil
}

// declarePart declares a part, and returns the arguments of a queue.
func (b *Broker) declarePart(ctx context.Context, p part) (amqp.Table, error) {
	made := make(chan amqp.Table, 1)
	err := b.publisher.declare(ctx, func(d *declarer) error {
		args, err := p.declare(d)
		made <- args
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-made, nil
}

// bindingAction says what a binding needs, from what its exchange and its queue need.
func bindingAction(exchange, queue broker.Action) (broker.Action, string) {
	switch {
	case exchange == broker.Conflict || queue == broker.Conflict:
		return broker.Conflict, "what it binds is in conflict"
	case exchange == broker.Create || queue == broker.Create:
		return broker.Create, ""
	}
	return broker.Ensure, "AMQP does not tell whether it is there"
}

// ask sends one request to the server.
func (b *Broker) ask(ctx context.Context, question func(*amqp.Channel) error) error {
	return b.publisher.declare(ctx, func(d *declarer) error { return d.on(question) })
}

func (b *Broker) topologyError(p part, err error) error {
	return waybill.UnavailableError(fmt.Errorf("rabbitbroker: %s %s at %s: %w", p.kind, p.title(), b.address, err))
}

// refusedWith returns the server's refusal if err is one with this code, else nil.
func refusedWith(err error, code int) *amqp.Error {
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Server && refused.Code == code {
		return refused
	}
	return nil
}
