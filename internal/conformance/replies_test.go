package conformance

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/broker/redisbroker"
	"github.com/waybill-go/waybill/contract"
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
	if err := replies.Subscribe(ctx, 1, func(contract.Delivery) {}); err != nil {
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
