package membroker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// patience ends a test that hangs.
const patience = 5 * time.Minute

func send(t *testing.T, b *Broker, topic, text string) {
	t.Helper()
	m := waybill.Message{Topic: topic, Payload: []byte(text)}
	m.Complete()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Publisher().Send(ctx, []contract.Outgoing{{Message: &m}})()[0]; err != nil {
		t.Fatal(err)
	}
}

func TestBroker_FakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		ctx, cancel := context.WithCancel(t.Context())
		sub := b.Subscriber(consumer.Subscription{Group: "g", Topics: []string{"t"}})
		start, ended := time.Now(), make(chan error, 1)
		var deliveries []time.Duration
		go func() {
			ended <- sub.Subscribe(ctx, 1, func(d contract.Delivery) {
				deliveries = append(deliveries, time.Since(start))
				if len(deliveries) < 3 {
					d.Retry(ctx, time.Hour)
				} else {
					d.Ack(ctx)
				}
			})
		}()
		send(t, b, "t", "x")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if len(deliveries) != 3 || deliveries[1] != time.Hour || deliveries[2] != 2*time.Hour {
			t.Errorf("deliveries at %v, want 0s, 1h and 2h", deliveries)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Subscribe() = %v, want nil", err)
		}
	})
}

func TestBroker_DeclaredBeforeSubscribe(t *testing.T) {
	t.Parallel()
	b := New()
	defer b.Close()
	sub := b.Subscriber(consumer.Subscription{Group: "g", Topics: []string{"t"}})
	send(t, b, "t", "x")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := ""
	err := sub.Subscribe(ctx, 1, func(d contract.Delivery) {
		m, _ := d.Message()
		got = string(m.Payload)
		cancel()
	})
	if err != nil || got != "x" {
		t.Errorf("Subscribe() = %v with message %q, want the one published before", err, got)
	}
}

func TestDelivery_SettledTwice(t *testing.T) {
	t.Parallel()
	b := New()
	defer b.Close()
	sub := b.Subscriber(consumer.Subscription{Group: "g", Topics: []string{"t"}})
	send(t, b, "t", "x")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sub.Subscribe(ctx, 1, func(d contract.Delivery) {
		defer cancel()
		if err := d.Ack(ctx); err != nil {
			t.Errorf("first Ack() = %v, want nil", err)
		}
		if err := d.Retry(ctx, 0); err == nil {
			t.Error("Retry() after Ack() = nil, want an error")
		}
	})
}

func TestBroker_PublishRaw(t *testing.T) {
	t.Parallel()
	b := New()
	defer b.Close()
	if err := b.PublishRaw("t", nil, nil, nil); waybill.ReasonOf(err) != waybill.ReasonUnroutable {
		t.Errorf("PublishRaw() = %v, want unroutable", err)
	}
}
