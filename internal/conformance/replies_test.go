package conformance

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/asbbroker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/broker/redisbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/request"
)

// receiveReplies opens a reply destination, looks whether it expires, receives from it for a moment,
// and looks whether it is gone then.
func receiveReplies(t *testing.T, b request.ReplyOpener, expires func(address string) bool, gone func(address string) bool) {
	t.Helper()
	address, replies, err := b.OpenReplies(t.Context())
	if err != nil {
		t.Fatalf("OpenReplies() = %v", err)
	}
	if gone(address) || !expires(address) {
		t.Errorf("%s is not there, or stays when its client dies", address)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := replies.Subscribe(ctx, 1, func(consumer.Delivery) {}); err != nil {
		t.Errorf("Subscribe() = %v, want nil", err)
	}
	if !gone(address) {
		t.Errorf("%s is there when its client has ended", address)
	}
}

func TestRabbitBroker_RepliesExpire(t *testing.T) {
	t.Parallel()
	r := newRabbit(t)
	b := r.open(t, rabbitbroker.Config{})
	t.Cleanup(func() { b.Close() })
	declare := func(address string, passive bool, args amqp.Table) error {
		ch, err := r.conn.Channel() // a refusal closes it
		if err != nil {
			t.Fatal(err)
		}
		defer ch.Close()
		if passive {
			_, err = ch.QueueDeclarePassive(address, true, false, false, false, args)
		} else {
			_, err = ch.QueueDeclare(address, true, false, false, false, args)
		}
		return err
	}
	receiveReplies(t, b.Broker, func(address string) bool {
		return declare(address, false, amqp.Table{amqp.QueueTTLArg: request.Expiry.Milliseconds(), amqp.QueueTypeArg: "classic"}) == nil &&
			declare(address, false, amqp.Table{amqp.QueueTypeArg: "classic"}) != nil // the server compares
	}, func(address string) bool {
		var refused *amqp.Error
		return errors.As(declare(address, true, nil), &refused) && refused.Code == amqp.NotFound
	})
}

func TestNATSBroker_RepliesExpire(t *testing.T) {
	t.Parallel()
	cfg := natsConfig(t, natsURL(t))
	b := natsOpen(t, cfg)
	nc, js := natsClient(t, cfg.URL)
	defer nc.Close()
	consumers := func() (list []*jetstream.ConsumerInfo) {
		stream, err := js.Stream(t.Context(), cfg.Stream)
		if err != nil {
			t.Fatal(err)
		}
		for info := range stream.ListConsumers(t.Context()).Info() {
			list = append(list, info)
		}
		return list
	}
	receiveReplies(t, b, func(string) bool {
		list := consumers()
		return len(list) == 1 && list[0].Config.InactiveThreshold == request.Expiry
	}, func(string) bool { return len(consumers()) == 0 })
}

func TestRedisBroker_RepliesExpire(t *testing.T) {
	t.Parallel()
	client := newRedis(t)
	cfg := redisbroker.Config{URL: redisURL(), Prefix: redisPrefix(t, client)}
	key := func(address string) string { return cfg.Prefix + "{to:" + address + "}" }
	receiveReplies(t, openRedisBroker(t, cfg), func(address string) bool {
		left, err := client.PTTL(t.Context(), key(address)).Result()
		return err == nil && left > 0 && left <= request.Expiry
	}, func(address string) bool {
		n, err := client.Exists(t.Context(), key(address)).Result()
		return err == nil && n == 0
	})
}

// TestASBBroker_RepliesExpire: the queue is made also by a client that declares nothing else, and
// made anew if it is removed under it.
func TestASBBroker_RepliesExpire(t *testing.T) {
	t.Parallel()
	a := newASB(t)
	b := a.open(t, asbbroker.Config{DeclareNothing: true, Sessions: true, DuplicateWindow: time.Hour})
	client := a.admin(t)
	queue := func(address string) *admin.GetQueueResponse {
		q, err := client.GetQueue(t.Context(), a.prefix+"to/"+address, nil)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	expires := func(address string) bool {
		q := queue(address)
		return *q.AutoDeleteOnIdle == "PT300S" && !*q.RequiresSession && !*q.RequiresDuplicateDetection
	}
	gone := func(address string) bool { return queue(address) == nil }
	receiveReplies(t, b, expires, gone)

	address, replies, err := b.OpenReplies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	got := make(chan string, 10)
	go func() {
		ended <- replies.Subscribe(ctx, 1, func(d consumer.Delivery) {
			m, _ := d.Message()
			_ = d.Ack(context.Background())
			got <- string(m.Payload)
		})
	}()
	a.publish(t, a.prefix+"to/"+address, &azservicebus.Message{Body: []byte("before")})
	<-got
	if _, err := client.DeleteQueue(t.Context(), a.prefix+"to/"+address, nil); err != nil {
		t.Fatal(err)
	}
	for gone(address) {
		if len(ended) > 0 {
			t.Fatalf("Subscribe() = %v when its queue was removed, want that it makes it anew", <-ended)
		}
	}
	a.publish(t, a.prefix+"to/"+address, &azservicebus.Message{Body: []byte("after")})
	if text := <-got; text != "after" {
		t.Errorf("got %q, want what was sent to the new queue", text)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Subscribe() = %v, want nil", err)
	}
}

// refusal answers each request with 403.
type refusal struct{}

func (refusal) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Request: r, Header: http.Header{}}, nil
}

// TestASBBroker_RepliesWithoutRights: a key that may not manage is an error that waiting does not
// mend.
func TestASBBroker_RepliesWithoutRights(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	a.http = &http.Client{Transport: refusal{}}
	b := a.open(t, asbbroker.Config{})
	_, _, err := b.OpenReplies(t.Context())
	if !waybill.IsPermanent(err) || !strings.Contains(err.Error(), "right to manage") {
		t.Errorf("OpenReplies() = %v, want a permanent error that names the right to manage", err)
	}
}
