package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/redisbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/guarantee"
)

func redisWanted(subs ...consumer.Subscription) broker.Wanted {
	return broker.Wanted{Subscriptions: subs}
}

// ownRedisStreams returns a broker with a prefix of its own on the shared server.
func ownRedisStreams(t *testing.T) (*redis.Client, *redisbroker.Broker, redisbroker.Config) {
	t.Helper()
	client := newRedis(t)
	cfg := redisbroker.Config{URL: redisURL(), Prefix: redisPrefix(t, client)}
	return client, openRedisBroker(t, cfg), cfg
}

// TestRedisBroker_TrimKeepsWhatIsNeeded has a group that is done with everything next to one that
// holds an entry, lets one wait, and has not received the rest.
func TestRedisBroker_TrimKeepsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	client, b, cfg := ownRedisStreams(t)
	quick, slow := consumer.Subscription{Group: "quick", Topics: []string{"t", "u"}}, consumer.Subscription{Group: "slow", Topics: []string{"t"}}
	redisDeclare(t, b, quick, slow)
	gotQuick, _ := redisSubscribe(t, b, quick)
	redisMustSend(t, b, redisMessages("t", 1, 5)...)
	redisExpect(t, gotQuick, redisTexts(1, 5)...)
	gotSlow, stopSlow := redisSubscribe(t, b, slow)
	held := make([]contract.Delivery, 5)
	for i := range held {
		_, held[i] = redisNext(t, gotSlow)
	}
	length := func(topic string) int64 {
		n, err := client.XLen(context.Background(), redisTopic(cfg, topic)).Result()
		must(t, err)
		return n
	}
	must(t, held[0].Ack(t.Context())) // 2 waits, 3 is held, 4 and 5 are done
	must(t, held[1].Retry(t.Context(), 3*time.Second))
	must(t, held[3].Ack(t.Context()))
	must(t, held[4].Ack(t.Context()))
	waitFor(t, "the first entry to be removed", func() bool { return length("t") == 4 })
	stopSlow()
	redisMustSend(t, b, redisMessages("t", 6, 50)...)
	redisExpect(t, gotQuick, redisTexts(6, 50)...)
	redisMustSend(t, b, redisMessages("u", 0, 0)...) // which is trimmed after the first
	redisExpect(t, gotQuick, "0")
	waitFor(t, "the other stream to be empty", func() bool { return length("u") == 0 })
	if n := length("t"); n != 49 {
		t.Errorf("%d entries are left, want the 49 from the one that waits on", n)
	}
	must(t, held[2].Ack(t.Context()))
	gotSlow, _ = redisSubscribe(t, b, slow)
	redisExpect(t, gotSlow, append(redisTexts(6, 50), "2")...)
	waitFor(t, "the stream to be empty", func() bool { return length("t") == 0 })
	if lag, err := b.Subscriber(slow).(contract.Lagger).Lag(t.Context()); err != nil || lag.Messages != 0 {
		t.Errorf("Lag() = %+v, %v after the trim, want 0", lag, err)
	}
}

// TestRedisBroker_KeepFor keeps what all groups are done with for a group that comes later.
func TestRedisBroker_KeepFor(t *testing.T) {
	t.Parallel()
	client, _, cfg := ownRedisStreams(t)
	cfg.KeepFor = time.Hour
	b := openRedisBroker(t, cfg)
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	redisDeclare(t, b, s)
	must(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: redisTopic(cfg, "t"), ID: "1-0", Values: []any{"data", "old"}}).Err())
	got, _ := redisSubscribe(t, b, s)
	redisMustSend(t, b, redisMessages("t", 1, 3)...)
	redisExpect(t, got, append(redisTexts(1, 3), "old")...)
	waitFor(t, "the old entry to be removed", func() bool {
		n, err := client.XLen(t.Context(), redisTopic(cfg, "t")).Result()
		return err == nil && n == 3
	})
	late, _ := redisSubscribe(t, b, consumer.Subscription{Group: "late", Topics: []string{"t"}})
	redisExpect(t, late, redisTexts(1, 3)...)
}

// TestRedisBroker_WaitsBeyondItsProcess lets a delivery wait and closes the broker.
func TestRedisBroker_WaitsBeyondItsProcess(t *testing.T) {
	t.Parallel()
	client, b, cfg := ownRedisStreams(t)
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	redisDeclare(t, b, s)
	got, _ := redisSubscribe(t, b, s)
	redisMustSend(t, b, redisMessages("t", 1, 1)...)
	_, d := redisNext(t, got)
	start := time.Now()
	must(t, d.Retry(t.Context(), 2*time.Second))
	must(t, b.Close())
	next, _ := redisSubscribe(t, openRedisBroker(t, cfg), s)
	text, d := redisNext(t, next)
	if took := time.Since(start); text != "1" || !d.Redelivered() || took < 2*time.Second {
		t.Errorf("payload %q after %v, redelivered %v, want 1 not before 2s", text, took, d.Redelivered())
	}
	must(t, d.Ack(t.Context()))
	waitFor(t, "nothing to be left of it", func() bool {
		p, err := client.XPending(t.Context(), redisTopic(cfg, "t"), "g").Result()
		left, zerr := client.Exists(t.Context(), redisTopic(cfg, "t")+":waiting:g").Result()
		return err == nil && zerr == nil && p.Count == 0 && left == 0
	})
}

// TestRedisBroker_RetriesTakeTurns has more due retries than the prefetch at any time; what is new
// gets through anyway.
func TestRedisBroker_RetriesTakeTurns(t *testing.T) {
	t.Parallel()
	_, b, _ := ownRedisStreams(t)
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	redisDeclare(t, b, s)
	redisMustSend(t, b, redisMessages("t", 1, 200)...)
	seen := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- b.Subscriber(s).Subscribe(ctx, 2, func(d contract.Delivery) {
			if m, err := d.Message(); err == nil && string(m.Payload) == "new" {
				seen <- struct{}{}
			}
			must(t, d.Retry(context.Background(), 0))
		})
	}()
	fresh := redisMessages("t", 0, 0)
	fresh[0].Payload = []byte("new")
	redisMustSend(t, b, fresh...)
	select {
	case <-seen:
	case <-time.After(patience):
		t.Error("what is new does not get through while retries are due")
	}
	cancel()
	must(t, <-ended)
}

func TestRedisBroker_Unroutable(t *testing.T) {
	t.Parallel()
	client, b, cfg := ownRedisStreams(t)
	err := redisSend(t, b, 10*time.Second, redisMessages("nobody", 1, 1))()[0]
	if waybill.ReasonOf(err) != waybill.ReasonUnroutable {
		t.Errorf("%v, want unroutable", err)
	}
	if n := client.Exists(t.Context(), redisTopic(cfg, "nobody")).Val(); n != 0 {
		t.Error("a stream was made for nobody")
	}
	must(t, client.Set(t.Context(), redisTopic(cfg, "string"), "x", time.Minute).Err())
	if err := redisSend(t, b, 10*time.Second, redisMessages("string", 1, 1))()[0]; !waybill.IsTransient(err) {
		t.Errorf("a key of another type: %v of kind %v, want transient", err, waybill.KindOf(err))
	}
	s := b.Subscriber(consumer.Subscription{Group: "g", Topics: []string{"string"}})
	if err := s.Subscribe(t.Context(), 1, func(contract.Delivery) {}); err == nil || waybill.IsUnavailable(err) {
		t.Errorf("Subscribe() = %v for a key of another type, want an error for good", err)
	}
}

// TestRedisBroker_ForeignEntries reads what others may write: the structured mode, fields of their
// own, bytes that are no text.
func TestRedisBroker_ForeignEntries(t *testing.T) {
	t.Parallel()
	client, b, cfg := ownRedisStreams(t)
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	redisDeclare(t, b, s)
	got, _ := redisSubscribe(t, b, s)
	event, err := json.Marshal(map[string]any{"specversion": "1.0", "id": "1", "source": "/x", "type": "a", "data_base64": []byte("\xff\x00")})
	must(t, err)
	add := func(values ...any) *waybill.Message {
		t.Helper()
		must(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: redisTopic(cfg, "t"), Values: values}).Err())
		d := <-got
		m, err := d.Message()
		must(t, d.Ack(t.Context()))
		if (err != nil) != slices.Contains(values, any("bad")) {
			t.Errorf("Message() = %v for %q", err, values)
		}
		return m
	}
	if m := add("content-type", "application/cloudevents+json", "data", event); m.ID != "1" || string(m.Payload) != "\xff\x00" || m.Source != "/x" {
		t.Errorf("structured event arrived as %+v", m)
	}
	if m := add("Colour", "red", "header_size", "9", "data", "x"); m.Headers["colour"] != "red" || m.Headers["size"] != "9" {
		t.Errorf("headers %q, want the fields", m.Headers)
	}
	if m := add("ce_id", "2", "ce_subject", "\xff", "data", "bad"); m.ID != "2" || m.Subject != "\ufffd" {
		t.Errorf("broken text arrived as %+v", m)
	}
}

func TestRedisBroker_Topology(t *testing.T) {
	t.Parallel()
	client, b, cfg := ownRedisStreams(t)
	w := broker.Wanted{
		Topics: []string{"alone", "t", "string"}, Destinations: []string{"d"},
		Subscriptions: []consumer.Subscription{{Group: "a", Topics: []string{"t"}, To: "d"}, {Group: "b", Topics: []string{"t", "string"}}},
	}
	must(t, client.Set(t.Context(), redisTopic(cfg, "string"), "x", time.Minute).Err())
	must(t, client.XGroupCreateMkStream(t.Context(), redisTopic(cfg, "t"), "a", "$").Err())
	shown := func(steps []broker.Step, err error) string {
		t.Helper()
		must(t, err)
		var lines []string
		for _, s := range steps {
			lines = append(lines, fmt.Sprintf("%s %s %s", s.Action, s.Kind, strings.ReplaceAll(s.Name, cfg.Prefix, "")))
		}
		return strings.Join(lines, "\n")
	}
	want := `create stream {topic:alone}
keep stream {topic:t}
keep group {topic:t} a
create group {topic:t} b
conflict stream {topic:string}
create stream {to:d}
create group {to:d} waybill`
	if got := shown(b.Plan(t.Context(), w)); got != want {
		t.Errorf("Plan() =\n%s\nwant\n%s", got, want)
	}
	if n := client.Exists(t.Context(), redisTopic(cfg, "alone")).Val(); n != 0 {
		t.Error("Plan() has made a stream")
	}
	if got := shown(b.Apply(t.Context(), w)); got != want {
		t.Errorf("Apply() =\n%s\nwant\n%s", got, want)
	}
	if got, want := shown(b.Plan(t.Context(), w)), strings.ReplaceAll(want, "create", "keep"); got != want {
		t.Errorf("Plan() after Apply() =\n%s\nwant\n%s", got, want)
	}
	redisMustSend(t, b, redisMessages("alone", 1, 1)...)
	got, _ := redisSubscribe(t, b, consumer.Subscription{Group: "late", Topics: []string{"alone"}})
	redisExpect(t, got, "1")
}

// TestRedisBroker_Explain reads a server's settings, and is refused them.
func TestRedisBroker_Explain(t *testing.T) {
	t.Parallel()
	server := newRedisChild(t)
	b := openRedisBroker(t, redisbroker.Config{URL: "redis://" + server.addr()})
	facts := func(b *redisbroker.Broker) map[string]guarantee.Fact {
		t.Helper()
		list, err := b.Explain(t.Context(), "t")
		must(t, err)
		found := make(map[string]guarantee.Fact)
		for _, f := range list {
			found[f.Setting] = f
		}
		return found
	}
	expect := func(f guarantee.Fact, value string, survives guarantee.Survives, stronger bool) {
		t.Helper()
		if f.Value != value || f.Survives != survives || (f.Stronger != "") != stronger || f.Means == "" {
			t.Errorf("%+v, want the value %q, which survives %v, stronger: %v", f, value, survives, stronger)
		}
	}
	expect(facts(b)["appendfsync"], "always", guarantee.PowerLoss, false)
	expect(facts(b)["maxmemory-policy"], "noeviction", guarantee.NodeLoss, false)
	expect(facts(b)["redisbroker.Config.Replicas"], "0", guarantee.PowerLoss, true)
	for name, value := range map[string]string{"appendfsync": "everysec", "maxmemory-policy": "allkeys-lru"} {
		must(t, server.client().ConfigSet(t.Context(), name, value).Err())
	}
	expect(facts(b)["appendfsync"], "everysec", guarantee.ProcessCrash, true)
	expect(facts(b)["maxmemory-policy"], "allkeys-lru", guarantee.Nothing, true)
	must(t, server.client().ConfigSet(t.Context(), "appendonly", "no").Err())
	expect(facts(b)["appendonly"], "no", guarantee.Nothing, true)

	must(t, server.client().Do(t.Context(), "ACL", "SETUSER", "default", "-config").Err())
	expect(facts(b)["appendonly"], "", guarantee.Unknown, false)
	server.kill()
	if _, err := b.Explain(t.Context(), "t"); !waybill.IsUnavailable(err) {
		t.Errorf("Explain() = %v without a server, want unavailable", err)
	}
}

// TestRedisBroker_LeastRights runs the broker as a user that may do what the package's comment says.
func TestRedisBroker_LeastRights(t *testing.T) {
	t.Parallel()
	server := newRedisChild(t)
	rights := []any{"ACL", "SETUSER", "app", "on", ">secret", "~waybill:*"}
	for _, command := range []string{"eval", "evalsha", "time", "set", "type", "xadd", "xreadgroup", "xack", "xclaim", "xpending",
		"xtrim", "xinfo", "xgroup", "zadd", "zrem", "zrange", "zrangebyscore", "exists"} {
		rights = append(rights, "+"+command)
	}
	must(t, server.client().Do(t.Context(), rights...).Err())
	b := openRedisBroker(t, redisbroker.Config{URL: "redis://app:secret@" + server.addr()})
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	redisDeclare(t, b, s)
	got, _ := redisSubscribe(t, b, s)
	redisMustSend(t, b, redisMessages("t", 1, 2)...)
	_, d := redisNext(t, got)
	must(t, d.Extend(t.Context()))
	must(t, d.Retry(t.Context(), 0))
	redisExpect(t, got, "1", "2")
	waitFor(t, "the stream to be trimmed", func() bool {
		n, err := server.client().XLen(t.Context(), "waybill:{topic:t}").Result()
		return err == nil && n == 0
	})
	_, err := b.Subscriber(s).(contract.Lagger).Lag(t.Context())
	must(t, err)

	must(t, server.client().Do(t.Context(), "ACL", "SETUSER", "app", "-xadd").Err())
	redisWantAll(t, redisSend(t, b, 10*time.Second, redisMessages("t", 3, 3))(), "unavailable", waybill.IsUnavailable)
}

func TestRedisBroker_OpenUnreachable(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://127.0.0.1:1", "redis://app:S3CR3T@127.0.0.1:1/3"} {
		var log strings.Builder
		b, err := redisbroker.Open(t.Context(), redisbroker.Config{URL: url, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatalf("Open(%s) = %v", url, err)
		}
		defer b.Close()
		if err := b.Ping(t.Context()); !waybill.IsUnavailable(err) || errors.Is(err, contract.ErrConnectionLost) || strings.Contains(err.Error(), "S3CR") {
			t.Errorf("Ping() = %v at %s, want unavailable", err, url)
		}
		if text := log.String(); !strings.Contains(text, "127.0.0.1:1") || strings.Contains(text, "S3CR") {
			t.Errorf("Open(%s) logged %q, want the address without the password", url, text)
		}
	}
}
