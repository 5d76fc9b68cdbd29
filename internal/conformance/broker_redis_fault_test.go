package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/redisbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
)

func redisMessages(topic string, from, to int) []waybill.Message {
	var msgs []waybill.Message
	for i := from; i <= to; i++ {
		m := waybill.Message{Topic: topic, Source: "test", Key: "k", Payload: fmt.Append(nil, i)}
		m.Complete()
		msgs = append(msgs, m)
	}
	return msgs
}

// redisSend publishes msgs and returns the function that waits for their results.
func redisSend(t *testing.T, b *redisbroker.Broker, within time.Duration, msgs []waybill.Message) func() []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	t.Cleanup(cancel)
	var out []contract.Outgoing
	for i := range msgs {
		out = append(out, contract.Outgoing{Message: &msgs[i], DedupID: msgs[i].ID})
	}
	return b.Publisher().Send(ctx, out)
}

func redisMustSend(t *testing.T, b *redisbroker.Broker, msgs ...waybill.Message) {
	t.Helper()
	must(t, errors.Join(redisSend(t, b, patience, msgs)()...))
}

// redisSendUntil repeats msgs until they are accepted.
func redisSendUntil(t *testing.T, b *redisbroker.Broker, msgs ...waybill.Message) {
	t.Helper()
	waitFor(t, "the messages are accepted", func() bool {
		return errors.Join(redisSend(t, b, 10*time.Second, msgs)()...) == nil
	})
}

// redisDeclare makes the streams and groups of a subscription.
func redisDeclare(t *testing.T, b *redisbroker.Broker, subs ...consumer.Subscription) {
	t.Helper()
	_, err := b.Apply(t.Context(), redisWanted(subs...))
	must(t, err)
}

// redisSubscribe runs a subscription until the test ends, or stop is called.
func redisSubscribe(t *testing.T, b *redisbroker.Broker, s consumer.Subscription) (got <-chan contract.Delivery, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	deliveries, ended := make(chan contract.Delivery, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		if err := b.Subscriber(s).Subscribe(ctx, 100, func(d contract.Delivery) { deliveries <- d }); err != nil && !waybill.IsUnavailable(err) {
			t.Errorf("Subscribe() = %v", err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return deliveries, stop
}

func redisNext(t *testing.T, got <-chan contract.Delivery) (string, contract.Delivery) {
	t.Helper()
	select {
	case d := <-got:
		m, err := d.Message()
		must(t, err)
		return string(m.Payload), d
	case <-time.After(patience):
		t.Fatalf("no message within %v", patience)
	}
	panic("unreachable")
}

// redisExpect takes and acknowledges deliveries until each of want has arrived; others may not.
func redisExpect(t *testing.T, got <-chan contract.Delivery, want ...string) {
	t.Helper()
	seen := make(map[string]bool)
	for len(seen) < len(want) {
		text, d := redisNext(t, got)
		if !slices.Contains(want, text) {
			t.Fatalf("payload %q, want one of %q", text, want)
		}
		seen[text] = true
		must(t, d.Ack(t.Context()))
	}
}

func redisTexts(from, to int) []string {
	var list []string
	for i := from; i <= to; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

func redisWantAll(t *testing.T, results []error, what string, is func(error) bool) {
	t.Helper()
	for i, err := range results {
		if !is(err) {
			t.Errorf("message %d: %v of kind %v, want %s", i, err, waybill.KindOf(err), what)
		}
	}
}

// proxiedRedis returns a broker behind a proxy, and one that reaches the server without it.
func proxiedRedis(t *testing.T) (*faultproxy.Proxy, *redisbroker.Broker, *redisbroker.Broker, redisbroker.Config) {
	t.Helper()
	cfg := redisbroker.Config{URL: redisURL(), Prefix: redisPrefix(t, newRedis(t)), ClaimAfter: redisClaimAfter}
	direct := openRedisBroker(t, cfg)
	behind, proxy := redisThroughProxy(t, cfg)
	return proxy, openRedisBroker(t, behind), direct, cfg
}

// redisThroughProxy returns cfg with all connections through a proxy.
func redisThroughProxy(t *testing.T, cfg redisbroker.Config) (redisbroker.Config, *faultproxy.Proxy) {
	t.Helper()
	options := redisOptions(t)
	proxy, err := faultproxy.New(t.Context(), options.Addr)
	must(t, err)
	cfg.URL, cfg.Options = "", &redis.UniversalOptions{
		Addrs: []string{proxy.Addr()}, Username: options.Username, Password: options.Password, DB: options.DB, TLSConfig: options.TLSConfig,
	}
	return cfg, proxy
}

// TestRedisBroker_CutBeforeConfirmation cuts the connection when Redis has the messages and the
// publisher has no answer. What is queued behind them fails with them.
func TestRedisBroker_CutBeforeConfirmation(t *testing.T) {
	t.Parallel()
	proxy, b, direct, cfg := proxiedRedis(t)
	redisDeclare(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	proxy.StallReplies(true)
	first, second := redisMessages("t", 1, 20), redisMessages("t", 21, 40)
	wait := redisSend(t, b, patience, first)
	waitFor(t, "Redis has the first batch", func() bool {
		n, err := newRedis(t).XLen(t.Context(), redisTopic(cfg, "t")).Result()
		return err == nil && n == 20
	})
	waitSecond := redisSend(t, b, patience, second)
	proxy.Refuse(true)
	proxy.Cut()
	proxy.StallReplies(false)
	lost := func(err error) bool { return waybill.IsUnavailable(err) && errors.Is(err, contract.ErrConnectionLost) }
	redisWantAll(t, waitSecond(), "unavailable, connection lost", lost)
	redisWantAll(t, redisSend(t, b, patience, second)(), "connection lost, while the sender of the first batch does not know", lost)
	redisWantAll(t, wait(), "unavailable, connection lost", lost)
	redisWantAll(t, redisSend(t, b, patience, second)(), "unavailable while nothing connects", waybill.IsUnavailable)

	proxy.Refuse(false)
	redisSendUntil(t, b, append(first, second...)...)
	got, _ := redisSubscribe(t, direct, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	var texts []string
	for range 60 {
		text, d := redisNext(t, got)
		texts = append(texts, text)
		must(t, d.Ack(t.Context()))
	}
	if want := append(redisTexts(1, 20), redisTexts(1, 40)...); !slices.Equal(texts, want) {
		t.Errorf("arrived: %q, want the first batch twice and the second once", texts)
	}
}

// TestRedisBroker_Silent has a server that neither answers nor hangs up.
func TestRedisBroker_Silent(t *testing.T) {
	t.Parallel()
	proxy, b, _, _ := proxiedRedis(t)
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	redisDeclare(t, b, s)
	got, _ := redisSubscribe(t, b, s)
	redisMustSend(t, b, redisMessages("t", 1, 1)...)
	redisExpect(t, got, "1")
	proxy.Stall(true)
	start := time.Now()
	redisWantAll(t, redisSend(t, b, time.Second, redisMessages("t", 2, 11))(), "unavailable, deadline exceeded", func(err error) bool {
		return waybill.IsUnavailable(err) && errors.Is(err, context.DeadlineExceeded)
	})
	if took := time.Since(start); took < time.Second {
		t.Errorf("wait() returned after %v, want at the deadline of a second", took)
	}
	proxy.Stall(false)
	redisSendUntil(t, b, redisMessages("t", 12, 21)...)
	for seen := make(map[string]bool); !seen["21"]; {
		text, d := redisNext(t, got)
		seen[text] = true
		must(t, d.Ack(t.Context()))
	}
}

// TestRedisBroker_ConsumerKilled takes the network from a subscriber that holds messages, has
// acknowledged one and lets one wait, and loses the set of due times too.
func TestRedisBroker_ConsumerKilled(t *testing.T) {
	t.Parallel()
	proxy, dying, b, cfg := proxiedRedis(t)
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	got, _ := redisSubscribe(t, dying, s)
	redisDeclare(t, b, s)
	redisMustSend(t, b, redisMessages("t", 1, 5)...)
	var held []contract.Delivery
	for range 5 {
		_, d := redisNext(t, got)
		held = append(held, d)
	}
	must(t, held[0].Ack(t.Context()))
	must(t, held[1].Retry(t.Context(), time.Hour))
	client := newRedis(t)
	waitFor(t, "the acknowledgement is known", func() bool {
		p, err := client.XPending(t.Context(), redisTopic(cfg, "t"), "g").Result()
		return err == nil && p.Count == 4
	})
	proxy.Refuse(true)
	proxy.Cut()
	must(t, client.Del(t.Context(), redisTopic(cfg, "t")+":waiting:g").Err())
	redisAge(t, client, redisTopic(cfg, "t"), "g", redisClaimAfter)

	next, _ := redisSubscribe(t, b, s)
	for seen := make(map[string]bool); len(seen) < 4; {
		text, d := redisNext(t, next)
		if text == "1" || !d.Redelivered() {
			t.Errorf("payload %q, redelivered %v, want 2 to 5, redelivered", text, d.Redelivered())
		}
		seen[text] = true
		if text != "5" { // which stays with its new holder
			must(t, d.Ack(t.Context()))
		}
	}
	proxy.Refuse(false)
	waitFor(t, "the first holder learns that it holds no more", func() bool {
		err := held[4].Extend(t.Context())
		return err != nil && !waybill.IsUnavailable(err)
	})
	must(t, held[4].Retry(t.Context(), 0)) // changes nothing for the new holder
	pending, err := client.XPendingExt(t.Context(), &redis.XPendingExtArgs{Stream: redisTopic(cfg, "t"), Group: "g", Start: "-", End: "+", Count: 10}).Result()
	must(t, err)
	if len(pending) != 1 || pending[0].Consumer == "(waiting)" {
		t.Errorf("pending: %+v, want one with its new holder", pending)
	}
}

// redisAge lets time pass for what a group has pending: the server takes it for untouched for as long,
// and nothing else changes.
func redisAge(t *testing.T, client *redis.Client, stream, group string, by time.Duration) {
	t.Helper()
	pending, err := client.XPendingExt(t.Context(), &redis.XPendingExtArgs{Stream: stream, Group: group, Start: "-", End: "+", Count: 100}).Result()
	must(t, err)
	for _, p := range pending {
		idle := (p.Idle + by).Milliseconds()
		must(t, client.Do(t.Context(), "XCLAIM", stream, group, p.Consumer, 0, p.ID, "IDLE", idle, "JUSTID").Err())
	}
}

// redisKeep extends a delivery, as a consumer does, until stop is called.
func redisKeep(t *testing.T, d contract.Delivery) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for tick := time.Tick(contract.ExtendInterval); ; {
			select {
			case <-tick:
				if err := d.Extend(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("Extend() = %v, want nil", err)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// TestRedisBroker_ServerKilled kills a server that writes each confirmed message to its file.
func TestRedisBroker_ServerKilled(t *testing.T) {
	t.Parallel()
	server := newRedisChild(t)
	b := openRedisBroker(t, redisbroker.Config{URL: "redis://" + server.addr()})
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	redisDeclare(t, b, s)
	got, _ := redisSubscribe(t, b, s)
	redisMustSend(t, b, redisMessages("t", 1, 3)...)
	text, held := redisNext(t, got)
	_, later := redisNext(t, got)
	_, acked := redisNext(t, got)
	must(t, acked.Ack(t.Context()))
	must(t, later.Retry(t.Context(), time.Second))
	redisMustSend(t, b, redisMessages("other group", 0, -1)...)
	redisDeclare(t, b, consumer.Subscription{Group: "late", Topics: []string{"t"}})
	redisMustSend(t, b, redisMessages("t", 4, 103)...)
	server.kill()
	redisWantAll(t, redisSend(t, b, patience, redisMessages("t", 104, 113))(), "unavailable", waybill.IsUnavailable)
	if err := b.Ping(t.Context()); !waybill.IsUnavailable(err) {
		t.Errorf("Ping() = %v, want unavailable", err)
	}
	if !server.start() {
		t.Fatal("the server does not start again")
	}
	redisSendUntil(t, b, redisMessages("t", 114, 114)...)
	must(t, held.Extend(t.Context())) // it is still held
	stop := redisKeep(t, held)
	redisExpect(t, got, append(redisTexts(4, 103), "2", "114")...) // what was in flight to us then is claimed again
	if text != "1" {
		t.Errorf("first payload %q, want 1", text)
	}
	stop()
	must(t, held.Ack(t.Context()))
	other, _ := redisSubscribe(t, b, consumer.Subscription{Group: "late", Topics: []string{"t"}})
	seen := make(map[string]bool)
	for !seen["114"] {
		text, d := redisNext(t, other)
		seen[text] = true
		must(t, d.Ack(t.Context()))
	}
	for _, text := range redisTexts(4, 103) {
		if !seen[text] {
			t.Errorf("the confirmed message %s did not reach the group that was away", text)
		}
	}
}

func TestRedisBroker_ServerRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		set, undo []any
	}{
		{"out of memory", []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		{"read only", []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
		{"too few replicas", []any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := newRedisChild(t)
			b := openRedisBroker(t, redisbroker.Config{URL: "redis://" + server.addr()})
			redisDeclare(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
			must(t, server.client().Do(t.Context(), tc.set...).Err())
			redisWantAll(t, redisSend(t, b, 10*time.Second, redisMessages("t", 1, 10))(), "unavailable", waybill.IsUnavailable)
			if err := b.Ping(t.Context()); !waybill.IsUnavailable(err) {
				t.Errorf("Ping() = %v, want unavailable", err)
			}
			must(t, server.client().Do(t.Context(), tc.undo...).Err())
			redisSendUntil(t, b, redisMessages("t", 1, 10)...)
		})
	}
}

// TestRedisBroker_Replicas publishes with one replica and without any.
func TestRedisBroker_Replicas(t *testing.T) {
	t.Parallel()
	master, replica := newRedisChild(t), newRedisChild(t)
	b := openRedisBroker(t, redisbroker.Config{URL: "redis://" + master.addr(), Replicas: 1})
	redisDeclare(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	redisWantAll(t, redisSend(t, b, 10*time.Second, redisMessages("t", 1, 3))(), "unavailable", waybill.IsUnavailable)
	host, port, _ := strings.Cut(master.addr(), ":")
	must(t, replica.client().Do(t.Context(), "REPLICAOF", host, port).Err())
	redisSendUntil(t, b, redisMessages("t", 4, 4)...)
	got, err := replica.client().XRevRangeN(t.Context(), "waybill:{topic:t}", "+", "-", 1).Result()
	must(t, err)
	if len(got) != 1 || got[0].Values["data"] != "4" {
		t.Errorf("the replica's last entry is %v, want the one that was confirmed", got)
	}
}

// TestRedisBroker_GroupGone removes stream and group under a subscription.
func TestRedisBroker_GroupGone(t *testing.T) {
	t.Parallel()
	client := newRedis(t)
	cfg := redisbroker.Config{URL: redisURL(), Prefix: redisPrefix(t, client)}
	b := openRedisBroker(t, cfg)
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	redisDeclare(t, b, s)
	got, _ := redisSubscribe(t, b, s)
	redisMustSend(t, b, redisMessages("t", 1, 1)...)
	redisExpect(t, got, "1")
	must(t, client.Del(t.Context(), redisTopic(cfg, "t")).Err())
	redisSendUntil(t, b, redisMessages("t", 2, 2)...)
	redisExpect(t, got, "2")
}
