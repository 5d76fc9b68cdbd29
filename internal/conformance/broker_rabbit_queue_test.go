package conformance

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// declared declares a queue past the adapter and returns the server's refusal, if it is there and
// made otherwise.
func (r *rabbit) declared(t *testing.T, queue string, args amqp.Table) error {
	t.Helper()
	r.note(queue)
	ch, err := r.conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	_, err = ch.QueueDeclare(queue, true, false, false, false, args)
	return err
}

// Arguments of queues, as others declare them.
var (
	newQueueArgs = amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(math.MaxInt32)}
	classicArgs  = amqp.Table{"x-queue-type": "classic"}
	quorumArgs   = amqp.Table{"x-queue-type": "quorum"}
	singleArgs   = amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(math.MaxInt32), "x-single-active-consumer": true}
)

// retryArgs are those of a retry queue of 100 ms.
func retryArgs(queue, queueType string) amqp.Table {
	args := amqp.Table{
		"x-queue-type": queueType, "x-message-ttl": int64(100), "x-expires": int64(3_600_100),
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue,
	}
	if queueType == "quorum" {
		args["x-dead-letter-strategy"], args["x-overflow"] = "at-least-once", "reject-publish"
	}
	return args
}

// retried receives a message from a queue, has it retried, and receives it again.
func (f *rabbitFault) retried(b rabbitBroker, queue string) {
	f.Helper()
	got, stop := f.subscribe(b, consumer.Subscription{Group: "g", To: queue}, 1)
	defer stop()
	if err := f.next(got).Retry(f.Context(), 0); err != nil {
		f.Fatalf("Retry() = %v", err)
	}
	if err := f.next(got).Ack(f.Context()); err != nil {
		f.Fatalf("Ack() = %v", err)
	}
}

func TestRabbitQueueType_Default(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg         rabbitbroker.Config
		queue       amqp.Table
		retryOfType string
	}{
		"default":       {rabbitbroker.Config{}, newQueueArgs, "quorum"},
		"single active": {rabbitbroker.Config{SingleActiveConsumer: true}, singleArgs, "quorum"},
		"quorum":        {rabbitbroker.Config{QueueType: rabbitbroker.QuorumQueue}, newQueueArgs, "quorum"},
		"classic":       {rabbitbroker.Config{QueueType: rabbitbroker.ClassicQueue}, classicArgs, "classic"},
	} {
		f := newRabbitFault(t, test.cfg)
		f.post("1")
		f.retried(f.broker, f.queue)
		if err := f.declared(t, f.queue, test.queue); err != nil {
			t.Errorf("%s: queue %v", name, err)
		}
		if err := f.declared(t, f.queue+".retry.100", retryArgs(f.queue, test.retryOfType)); err != nil {
			t.Errorf("%s: retry queue %v", name, err)
		}
	}
}

// A message that dying consumers gave back many times is still there: a quorum queue of RabbitMQ 4
// would have dropped it, had the queue been made without a limit of its own; and one of 3.10 would
// have at the first time, had the limit been -1.
func TestRabbitQueueType_GivenBack(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	f.post("1")
	ch := f.channel(t)
	for i := range 30 {
		var d amqp.Delivery
		f.eventually("the message to be there", func() (ok bool) {
			var err error
			if d, ok, err = ch.Get(f.queue, false); err != nil {
				t.Fatal(err)
			}
			return ok
		})
		counted := d.Headers["x-delivery-count"]
		if acquired, ok := d.Headers["x-acquired-count"]; ok {
			counted = acquired // RabbitMQ 4.3 tells these from deliveries that failed
		}
		if n, _ := counted.(int64); n != int64(i) {
			t.Fatalf("given back %v times, want %d", counted, i)
		}
		if err := d.Nack(false, true); err != nil {
			t.Fatal(err)
		}
	}
	f.retried(f.broker, f.queue)
}

// By default a queue that is there is used as it is, with what is in it, and the log says so once.
func TestRabbitQueueType_Existing(t *testing.T) {
	t.Parallel()
	limits := !strings.HasPrefix(newRabbit(t).version(), "3.") // of deliveries, unless the queue has one of its own
	for name, test := range map[string]struct {
		args     amqp.Table
		retry    string // type of the retry queue, which is there as well
		remarked bool
	}{
		"without a type":              {nil, "classic", true},
		"classic":                     {classicArgs, "classic", true},
		"classic with a quorum retry": {classicArgs, "quorum", true},
		"quorum without a limit":      {quorumArgs, "quorum", limits},
		"quorum with a classic retry": {newQueueArgs, "classic", false},
		"quorum as new ones are":      {newQueueArgs, "quorum", false},
	} {
		f := newRabbitFault(t, rabbitbroker.Config{})
		queue := "existing-" + f.queue
		must(t, f.declared(t, queue, test.args))
		must(t, f.declared(t, queue+".retry.100", retryArgs(queue, test.retry)))
		f.publish(t, "", queue, amqp.Publishing{Body: []byte("1")})
		f.publish(t, "", queue, amqp.Publishing{Body: []byte("2")})
		var log bytes.Buffer
		b := f.open(t, rabbitbroker.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 2 {
			f.retried(b, queue)
		}
		must(t, b.Declare(t.Context(), consumer.Subscription{Group: "g", To: queue}))
		must(t, b.Close())
		if said := strings.Count(log.String(), queue); said > 1 || said == 1 != test.remarked {
			t.Errorf("%s: the log names the queue %d times, want it once: %v\n%s", name, said, test.remarked, log.String())
		}
		must(t, f.declared(t, queue, test.args))
		must(t, f.declared(t, queue+".retry.100", retryArgs(queue, test.retry)))
	}
}

// A program that declares nothing finds out what retry queues are like when it needs one.
func TestRabbitQueueType_ExistingUndeclared(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{QueueType: rabbitbroker.ClassicQueue})
	must(t, f.declared(t, f.queue+".retry.100", retryArgs(f.queue, "classic")))
	b := f.open(t, rabbitbroker.Config{DeclareNothing: true})
	t.Cleanup(func() { b.Close() })
	f.post("1")
	f.retried(b, f.queue)
}

// With a type that is insisted on, a queue of another type is refused and stays as it is.
func TestRabbitQueueType_Insisted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		queueType string
		existing  amqp.Table
		refused   bool
	}{
		{rabbitbroker.QuorumQueue, nil, true},
		{rabbitbroker.QuorumQueue, classicArgs, true},
		{rabbitbroker.QuorumQueue, quorumArgs, false},
		{rabbitbroker.ClassicQueue, newQueueArgs, true},
		{rabbitbroker.ClassicQueue, nil, false},
		{"", amqp.Table{"x-queue-type": "stream"}, true},
		{"", amqp.Table{"x-max-length": int32(5)}, true},
		{"", amqp.Table{"x-queue-type": "quorum", "x-max-length": int32(5)}, true},
	} {
		r := newRabbit(t)
		queue := "existing-" + waybill.NewID()
		must(t, r.declared(t, queue, test.existing))
		b := r.open(t, rabbitbroker.Config{QueueType: test.queueType})
		t.Cleanup(func() { b.Close() })
		s := consumer.Subscription{Group: "g", To: queue}
		if err := b.Declare(t.Context(), s); waybill.IsPermanent(err) != test.refused || !test.refused && err != nil {
			t.Errorf("Declare() = %v with %q on %v, want it refused for good: %v", err, test.queueType, test.existing, test.refused)
		}
		if test.refused {
			if err := subscribed(t, b, s); !waybill.IsPermanent(err) {
				t.Errorf("Subscribe() = %v with %q on %v, want permanent", err, test.queueType, test.existing)
			}
		}
		must(t, r.declared(t, queue, test.existing))
	}
}

// subscribed returns the error of a subscription that should be refused.
func subscribed(t *testing.T, b rabbitBroker, s consumer.Subscription) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return b.Subscriber(s).Subscribe(ctx, 1, func(contract.Delivery) {})
}

// Programs that start at once all find the queue.
func TestRabbitQueueType_DeclaredAtOnce(t *testing.T) {
	t.Parallel()
	for name, existing := range map[string]amqp.Table{"new": nil, "classic": classicArgs} {
		r := newRabbit(t)
		s := consumer.Subscription{Group: "at-once-" + waybill.NewID(), Topics: []string{"t"}}
		r.note(s.Group)
		if existing != nil {
			must(t, r.declared(t, s.Group, existing))
		}
		start := make(chan struct{})
		var programs sync.WaitGroup
		for range 12 {
			b := r.open(t, rabbitbroker.Config{})
			t.Cleanup(func() { b.Close() })
			programs.Go(func() {
				<-start
				if err := b.Declare(context.Background(), s); err != nil {
					t.Errorf("%s: Declare() = %v", name, err)
				}
			})
		}
		close(start)
		programs.Wait()
	}
}

// TestRabbitPlanFindsClassic (AS-62): a classic queue is compatible by default, and the plan says what
// it is; it stays as it is.
func TestRabbitPlanFindsClassic(t *testing.T) {
	t.Parallel()
	r, n := newRabbit(t), newTopologyNames()
	r.note(n.to)
	must(t, r.declared(t, n.group, classicArgs))
	b := r.open(t, rabbitbroker.Config{})
	t.Cleanup(func() { b.Close() })
	steps, err := b.Plan(t.Context(), n.wanted())
	wantActions(t, "Plan()", steps, err, broker.Keep, broker.Create, broker.Keep, broker.Ensure)
	if made, kept := steps[1].Detail, steps[2].Detail; !strings.Contains(made, "x-queue-type: quorum") || !strings.Contains(kept, "is a classic queue") {
		t.Errorf("Plan() = %+v, want the new queue a quorum queue, and the other one said to be classic", steps)
	}
	steps, err = b.Apply(t.Context(), n.wanted())
	wantActions(t, "Apply()", steps, err, broker.Keep, broker.Create, broker.Keep, broker.Ensure)
	must(t, r.declared(t, n.group, classicArgs))
	must(t, r.declared(t, n.to, newQueueArgs))

	insists := r.open(t, rabbitbroker.Config{QueueType: rabbitbroker.QuorumQueue})
	t.Cleanup(func() { insists.Close() })
	steps, err = insists.Plan(t.Context(), n.wanted())
	wantActions(t, "Plan() that insists", steps, err, broker.Keep, broker.Keep, broker.Conflict, broker.Conflict)
}

// What the server takes out of a queue is in the queue of the dead-letter exchange.
func TestRabbitDeadLetterExchange(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"", rabbitbroker.ClassicQueue} {
		id := waybill.NewID()
		dead := "dead-" + id
		f := newRabbitFault(t, rabbitbroker.Config{QueueType: queueType, DeadLetterExchange: dead})
		f.note(dead)
		t.Cleanup(func() { _ = f.channel(t).ExchangeDelete(dead, false, false) }) // only a test's leftovers
		f.all("accepted", f.send(patience, 1)(), accepted)
		d, ok, err := f.channel(t).Get(f.queue, false)
		if err != nil || !ok {
			t.Fatalf("Get() = %v, %v, want the message", ok, err)
		}
		must(t, d.Reject(false))
		got := f.get(dead)
		deaths, _ := got.Headers["x-death"].([]any)
		if len(deaths) != 1 || deaths[0].(amqp.Table)["queue"] != f.queue || got.RoutingKey != f.topic || string(got.Body) != "x" {
			t.Errorf("%q: dead letter %+v, want the message and where it was", queueType, got)
		}
		f.retryStaysOutOf(dead)

		var invalid *waybill.InvalidError
		if err := subscribed(t, f.broker, consumer.Subscription{Group: "g", To: dead}); !errors.As(err, &invalid) {
			t.Errorf("Subscribe() = %v to dead letters with the configuration that has them, want an InvalidError", err)
		}
		steps, err := f.broker.Plan(t.Context(), broker.Wanted{Destinations: []string{"new-" + id}})
		wantActions(t, "Plan()", steps, err, broker.Keep, broker.Keep, broker.Keep, broker.Ensure, broker.Create)
	}
}

// retryStaysOutOf has a message retried and finds it in its own queue alone.
func (f *rabbitFault) retryStaysOutOf(dead string) {
	f.Helper()
	f.post("1")
	f.retried(f.broker, f.queue)
	if n := f.depth(dead); n != 0 {
		f.Errorf("%d retried messages are dead letters", n)
	}
}
