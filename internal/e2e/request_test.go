package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	brokers "github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/testtools/deadline"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/request"
)

// asked is a service that answers requests, and a client of it, on connections of their own.
type asked struct {
	*world
	to     string // where requests go
	client *request.Client
	seen   *opCounter        // what the client tells
	proxy  *faultproxy.Proxy // before the client's broker; nil if it is in memory

	held   chan struct{} // gets a value when the handler holds a request
	answer chan struct{} // closed to let it go on
}

// onReplyBrokers runs a story on each broker that receives replies. h handles the requests.
func onReplyBrokers(t *testing.T, h func(a *asked) consumer.Handler[pgx.Tx], story func(t *testing.T, a *asked)) {
	t.Parallel()
	for _, kind := range []string{"nats", "rabbit", "redis", "kafka", "service bus", "memory"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a := &asked{world: plainWorld(t), seen: newOpCounter(), held: make(chan struct{}, 10), answer: make(chan struct{})}
			far, near := a.connect(t, kind)
			sub := consumer.Subscription{Group: a.to, To: a.to}
			if declarer, ok := near.(brokers.Topology); ok {
				if _, err := declarer.Apply(t.Context(), brokers.Wanted{Subscriptions: []consumer.Subscription{sub}}); err != nil {
					t.Fatal(err)
				}
			}
			a.startRelay(t, near.Publisher(), relay.Config{})
			a.startConsumer(t, from(near, sub), h(a), consumer.Config{})
			var err error
			a.client, err = request.NewClient(far, request.Config{Source: "shop", Timeout: unreached, Observer: a.seen})
			if err != nil {
				t.Fatal(err)
			}
			inBackground(t, a.client.Run)
			story(t, a)
		})
	}
}

// connect returns the broker of the client, behind a proxy, and that of the service.
func (a *asked) connect(t *testing.T, kind string) (far, near broker) {
	t.Helper()
	if kind == "memory" {
		a.to = "prices"
		b := membroker.New()
		return b.Connect(), b
	}
	var s brokerSettings
	switch kind {
	case "redis":
		s, near = redisStreams(t)
	case "kafka":
		s, near = kafkaOf(t, 1)
	case "service bus":
		s, near = serviceBus(t)
	default:
		s = newBroker(t, kind)
		near = s.connect(t)
	}
	a.to = s.group("prices")
	if kind == "rabbit" {
		t.Cleanup(func() { s.deleteNamedQueue(t, a.to) })
	}
	through, proxy := s.throughProxy(t)
	a.proxy = proxy
	return through.connect(t), near
}

// echo answers with the request's payload, and leaves an effect.
func echo(a *asked) consumer.Handler[pgx.Tx] {
	return func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		if err := a.addEffect(ctx, tx, "prices", m.ID); err != nil {
			return err
		}
		return request.Reply(ctx, a.writer, tx, waybill.Message{ID: "reply to " + m.ID, Payload: m.Payload})
	}
}

// slow is echo that holds the request of the id "slow" until it may answer.
func slow(a *asked) consumer.Handler[pgx.Tx] {
	return func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		if m.ID == "slow" {
			a.held <- struct{}{}
			select {
			case <-a.answer:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return echo(a)(ctx, tx, m)
	}
}

func (a *asked) ask(id string) (string, error) {
	reply, err := a.client.Request(context.Background(), waybill.Message{ID: id, To: a.to, Type: "price", Payload: []byte("to " + id)})
	return string(reply.Payload), err
}

// TestRequestManyAtOnce: each of 100 callers gets the reply to its own request, and each request is
// handled once.
func TestRequestManyAtOnce(t *testing.T) {
	onReplyBrokers(t, echo, func(t *testing.T, a *asked) {
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				id := fmt.Sprint("r", i)
				if got, err := a.ask(id); err != nil || got != "to "+id {
					t.Errorf("Request(%s) = %q, %v", id, got, err)
				}
			})
		}
		wg.Wait()
		if n := a.number(t, "SELECT count(DISTINCT message_id) FROM "+a.table("effects")); n != 100 {
			t.Errorf("%d of 100 requests have an effect", n)
		}
	})
}

// TestRequestTimeout: a handler that answers when the caller has stopped waiting. The reply is dropped and
// counted, and disturbs nobody.
func TestRequestTimeout(t *testing.T) {
	onReplyBrokers(t, slow, func(t *testing.T, a *asked) {
		if got, err := a.ask("first"); err != nil || got != "to first" {
			t.Fatalf("Request(first) = %q, %v", got, err)
		}
		ctx, end := deadline.ByHand(t.Context())
		go func() { <-a.held; end() }()
		if _, err := a.client.Request(ctx, waybill.Message{ID: "slow", To: a.to, Type: "price"}); !errors.Is(err, request.ErrTimeout) {
			t.Fatalf("Request(slow) = %v, want ErrTimeout", err)
		}
		close(a.answer)
		eventually(t, "the late reply is counted", func() bool { return a.seen.count(observe.OpLateReply) > 0 })
		if got, err := a.ask("next"); err != nil || got != "to next" {
			t.Errorf("Request(next) = %q, %v", got, err)
		}
	})
}

// TestRequestRolledBack: of a handler that replies and then fails, nothing is sent; the attempt that
// commits answers.
func TestRequestRolledBack(t *testing.T) {
	fails := func(a *asked) consumer.Handler[pgx.Tx] {
		var attempts atomic.Int64
		return func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			n := attempts.Add(1)
			text := fmt.Sprint("attempt ", n)
			if err := request.Reply(ctx, a.writer, tx, waybill.Message{ID: text, Payload: []byte(text)}); err != nil {
				return err
			}
			if n == 1 {
				return errors.New("after the reply")
			}
			return nil
		}
	}
	onReplyBrokers(t, fails, func(t *testing.T, a *asked) {
		if got, err := a.ask("r1"); err != nil || got != "attempt 2" {
			t.Errorf("Request() = %q, %v; want the reply of the attempt that committed", got, err)
		}
		if n := a.number(t, "SELECT count(*) FROM "+a.table("messages")+" WHERE id = 'attempt 1'"); n != 0 {
			t.Error("the reply of the attempt that was rolled back is in the outbox")
		}
	})
}

// TestRequestConnectionCut: the client's connections are cut while requests wait, and for a while it
// gets no other. The reply that was sent meanwhile arrives, and so does what is asked meanwhile.
func TestRequestConnectionCut(t *testing.T) {
	onReplyBrokers(t, slow, func(t *testing.T, a *asked) {
		if a.proxy == nil {
			return // there is nothing to cut in memory
		}
		if got, err := a.ask("warm"); err != nil || got != "to warm" {
			t.Fatalf("Request(warm) = %q, %v", got, err)
		}
		results := make(chan error, 2)
		ask := func(id string) {
			got, err := a.ask(id)
			if err == nil && got != "to "+id {
				err = fmt.Errorf("got %q", got)
			}
			results <- err
		}
		go ask("slow")
		<-a.held
		a.proxy.Refuse(true)
		a.proxy.Cut()
		go ask("meanwhile")
		close(a.answer)
		a.waitStatus(t, "reply to slow", inspect.Published)
		a.proxy.Refuse(false)
		for range 2 {
			if err := <-results; err != nil {
				t.Errorf("Request() = %v, want the reply", err)
			}
		}
	})
}

// TestRequestClientGone: the reply to a client that has gone is done with. It is no dead letter, and
// is not tried again.
func TestRequestClientGone(t *testing.T) {
	onReplyBrokers(t, echo, func(t *testing.T, a *asked) {
		if got, err := a.ask("r1"); err != nil || got != "to r1" {
			t.Fatalf("Request() = %q, %v", got, err)
		}
		gone := waybill.WithMessage(t.Context(), &waybill.Message{ID: "gone", Type: "price", Headers: map[string]string{request.AddressHeader: request.NewAddress()}})
		a.inTx(t, func(tx pgx.Tx) error {
			return request.Reply(gone, a.writer, tx, waybill.Message{ID: "to nobody"})
		})
		a.waitStatus(t, "to nobody", inspect.Published)
	})
}
