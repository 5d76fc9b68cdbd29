package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/redisbroker"
	"github.com/waybill-go/waybill/consumer"
)

func redisAdapter(ctx context.Context, w *world, payload []byte) (traffic, error) {
	b, err := redisbroker.Open(ctx, redisbroker.Config{URL: w.redis, Prefix: w.name + ":"})
	if err != nil {
		return nil, err
	}
	_, err = b.Apply(ctx, broker.Wanted{Subscriptions: []consumer.Subscription{{Group: w.name, Topics: []string{topic}}}})
	return adapterTraffic{b, w.name, payload}, err
}

// streamOf is the stream of the topic under the prefix of a name.
func streamOf(name string) string { return name + ":{topic:" + topic + "}" }

// redisHand is the loop that one would write with go-redis.
type redisHand struct {
	client *redis.Client
	name   string // of the group
	stream string
	sample []any // field, value and so on, as the adapter writes them
	id     int   // index of the value of ce_id in it
}

func redisByHand(ctx context.Context, w *world, payload []byte) (traffic, error) {
	ours, err := redisAdapter(ctx, w, payload) // makes stream and group
	if err != nil {
		return nil, err
	}
	defer ours.close()
	if err := ours.publish(ctx, 1); err != nil {
		return nil, err
	}
	o, err := redis.ParseURL(w.redis)
	if err != nil {
		return nil, err
	}
	h := &redisHand{client: redis.NewClient(o), name: w.name, stream: streamOf(w.name)}
	if err := h.prepare(ctx); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// prepare takes a message of the adapter's out of the stream as a sample.
func (h *redisHand) prepare(ctx context.Context) error {
	entries, err := h.client.XRange(ctx, h.stream, "-", "+").Result()
	if err != nil || len(entries) != 1 {
		return errors.Join(err, errors.New("the stream has no sample"))
	}
	for name, value := range entries[0].Values {
		if name == "ce_id" {
			h.id = len(h.sample) + 1
		}
		h.sample = append(h.sample, name, value)
	}
	return h.client.XDel(ctx, h.stream, entries[0].ID).Err()
}

func (h *redisHand) close() { h.client.Close() }

func (h *redisHand) publish(ctx context.Context, n int) error {
	for n > 0 {
		pipe := h.client.Pipeline()
		for range min(n, window) {
			values := append([]any(nil), h.sample...)
			values[h.id] = waybill.NewID()
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: h.stream, NoMkStream: true, Values: values})
			n--
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (h *redisHand) receive(ctx context.Context, n int) (last time.Time, _ error) {
	for n > 0 {
		streams, err := h.client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: h.name, Consumer: "byhand", Streams: []string{h.stream, ">"}, Count: window,
		}).Result()
		if err != nil {
			return last, err
		}
		pipe := h.client.Pipeline()
		for _, e := range streams[0].Messages {
			pipe.XAck(ctx, h.stream, h.name, e.ID)
			n--
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return last, err
		}
	}
	return time.Now(), nil
}
