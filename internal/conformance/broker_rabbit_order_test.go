package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/store/memstore"
)

// newSingleActive returns a queue of which one consumer gets messages at a time, with five of them.
func newSingleActive(t *testing.T) (*rabbitFault, consumer.Subscription) {
	t.Helper()
	f := newRabbitFault(t, rabbitbroker.Config{SingleActiveConsumer: true})
	f.postAll("1", "2", "3", "4", "5")
	return f, consumer.Subscription{Group: f.queue, Topics: []string{f.topic}}
}

func (f *rabbitFault) postAll(texts ...string) {
	f.Helper()
	for _, text := range texts {
		f.post(text)
	}
}

// giveBack returns a delivery to its queue.
func (f *rabbitFault) giveBack(d received) {
	f.Helper()
	if err := d.Delivery.(contract.Returner).Return(f.Context()); err != nil {
		f.Errorf("Return() of %q = %v", d.text, err)
	}
}

// ackAll acknowledges what is expected to come next.
func (f *rabbitFault) ackAll(got <-chan received, want ...string) {
	f.Helper()
	for _, text := range want {
		d := f.next(got)
		if d.text != text {
			f.Errorf("delivery of %q, want %s", d.text, text)
		}
		if err := d.Ack(f.Context()); err != nil {
			f.Errorf("Ack() of %q = %v", d.text, err)
		}
	}
}

// TestRabbitSubscriber_ReturnsInOrder: at the end of a subscription the order of what is given back is that of the queue.
func TestRabbitSubscriber_ReturnsInOrder(t *testing.T) {
	t.Parallel()
	for name, single := range map[string]bool{"several active consumers": false, "single active consumer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newRabbitFault(t, rabbitbroker.Config{SingleActiveConsumer: single})
			s := consumer.Subscription{Group: f.queue, Topics: []string{f.topic}}
			want := []string{"1", "2", "3", "4", "5", "6", "7", "8"}
			f.postAll(want...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got, ended := make(chan received, len(want)), make(chan error, 1)
			go func() {
				ended <- f.broker.Subscriber(s).Subscribe(ctx, 5, func(d contract.Delivery) {
					m, _ := d.Message()
					got <- received{Delivery: d, text: string(m.Payload)}
				})
			}()
			var list []received
			for range 5 {
				list = append(list, f.next(got))
			}
			cancel()
			for _, d := range slices.Backward(list) {
				f.giveBack(d)
			}
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			next, _ := f.subscribe(f.broker, s, 10)
			f.ackAll(next, want...)
		})
	}
}

// TestRabbitSubscriber_ReturnWhileReceiving: what is given back in the middle comes again.
func TestRabbitSubscriber_ReturnWhileReceiving(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	f.postAll("1", "2")
	got, _ := f.subscribe(f.broker, consumer.Subscription{Group: "g", To: f.queue}, 1)
	f.giveBack(f.next(got))
	again := f.next(got)
	if again.text != "1" || !again.Redelivered() {
		t.Errorf("delivery of %q, Redelivered() = %v, want 1 redelivered", again.text, again.Redelivered())
	}
	f.giveBack(again)
	f.ackAll(got, "1", "2")
}

// TestRabbitSingleActive_Stop: while something of a subscription that has ended is worked on nobody gets what is
// behind it.
func TestRabbitSingleActive_Stop(t *testing.T) {
	t.Parallel()
	f, s := newSingleActive(t)
	got, stop := f.subscribe(f.broker, s, 2)
	held, back := f.next(got), f.next(got)
	behind, _ := f.subscribe(f.broker, s, 10)
	stop()
	f.giveBack(back)
	f.postAll("6", "7", "8")
	settled := time.Now()
	if err := held.Ack(t.Context()); err != nil {
		t.Errorf("Ack() = %v after Subscribe returned, want nil", err)
	}
	first := f.next(behind)
	if first.text != "2" || !first.Redelivered() || first.at.Before(settled) {
		t.Errorf("delivery of %q, Redelivered() = %v, %v after message 1 was settled, want 2, behind that", first.text, first.Redelivered(), first.at.Sub(settled))
	}
	f.ackAll(behind, "3", "4", "5", "6", "7", "8")
}

// TestRabbitSingleActive_Resume: the subscription that follows one of which something is still worked on goes on
// where that has stopped.
func TestRabbitSingleActive_Resume(t *testing.T) {
	t.Parallel()
	f, s := newSingleActive(t)
	sub := f.broker.Subscriber(s)
	got, stop := f.receive(sub, 3)
	held, second, third := f.next(got), f.next(got), f.next(got)
	behind, _ := f.subscribe(f.broker, s, 10)
	stop()
	f.giveBack(third)
	f.giveBack(second)
	got, stop = f.receive(sub, 3)
	again := f.next(got)
	if again.text != "2" || !again.Redelivered() {
		t.Errorf("delivery of %q, Redelivered() = %v, want 2 redelivered", again.text, again.Redelivered())
	}
	if err := again.Ack(t.Context()); err != nil {
		t.Error(err)
	}
	f.ackAll(got, "3", "4")
	if len(behind) > 0 {
		t.Errorf("another consumer got %q", f.next(behind).text)
	}
	if err := held.Ack(t.Context()); err != nil {
		t.Errorf("Ack() = %v of the subscription before, want nil", err)
	}
	f.ackAll(got, "5")
	stop()
	f.post("6")
	f.ackAll(behind, "6")
}

// TestRabbitSingleActive_QueueDeleted: a subscription that the server has ended is not waited for.
func TestRabbitSingleActive_QueueDeleted(t *testing.T) {
	t.Parallel()
	f, s := newSingleActive(t)
	sub := f.broker.Subscriber(s)
	got, stop := f.receive(sub, 10)
	held := f.next(got)
	if _, err := f.channel(t).QueueDelete(f.queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	f.eventually("the queue again", f.consumed(f.queue, 1))
	for range 4 {
		f.next(got) // from before
	}
	f.post("6")
	f.ackAll(got, "6")
	stop()
	got, _ = f.receive(sub, 10)
	f.post("7")
	f.ackAll(got, "7")
	if err := held.Ack(t.Context()); err != nil {
		t.Errorf("Ack() = %v of a message whose queue is gone", err)
	}
}

// TestRabbitSingleActive_HeldUp: messages of a key fill the subscription of a replica and wait there behind one that
// fails. The next replica gets none of those behind.
func TestRabbitSingleActive_HeldUp(t *testing.T) {
	t.Parallel()
	const n, tries = 12, 20
	f := newRabbitFault(t, rabbitbroker.Config{SingleActiveConsumer: true})
	s := consumer.Subscription{Group: f.queue, Topics: []string{f.topic}}
	var mu sync.Mutex
	var order []string
	attempts, done := 0, make(chan struct{})
	handler := func(_ context.Context, _ *memstore.Tx, m *waybill.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if attempts++; string(m.Payload) == "1" && attempts < tries {
			return errors.New("not yet")
		}
		if order = append(order, string(m.Payload)); len(order) == n {
			close(done)
		}
		return nil
	}
	store := memstore.New()
	start := func() {
		c, err := consumer.New(f.broker, s, contract.Inbox[*memstore.Tx](store), handler, consumer.Config{
			Order: consumer.OrderByKey, Concurrency: 2, Prefetch: 4,
			Retry: waybill.RetryPolicy{BaseDelay: 10 * time.Millisecond, MaxDelay: 10 * time.Millisecond, MaxRetries: 10 * tries},
		})
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			must(t, <-ended)
		})
	}
	start()
	f.eventually("the first replica", f.consumed(f.queue, 1))
	var msgs []waybill.Message
	var want []string
	for i := range n {
		m := waybill.Message{Topic: f.topic, Key: "k", Payload: []byte(fmt.Sprint(i + 1))}
		m.Complete()
		msgs, want = append(msgs, m), append(want, string(m.Payload))
	}
	start()
	f.all("accepted", f.sendAll(patience, msgs)(), accepted)
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("not all were handled")
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(order, want) {
		t.Errorf("handled %v, want %v", order, want)
	}
}
