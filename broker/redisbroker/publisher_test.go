package redisbroker

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// accepting stands for a server that accepts all entries, and keeps none.
type accepting struct {
	see func(args []any)
}

func (accepting) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (accepting) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (a accepting) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			a.see(cmd.Args())
			cmd.(*redis.StringCmd).SetVal("1-0")
		}
		return nil
	}
}

// send returns a function that publishes m n times through a server that accepts it.
func send(t *testing.T, m *waybill.Message, n int, see func(args []any)) func() {
	client := redis.NewClient(&redis.Options{})
	client.AddHook(accepting{see})
	b := &Broker{cfg: Config{Prefix: defaultPrefix, MaxPayload: waybill.MaxPayloadLen}, client: client}
	b.publisher = &publisher{broker: b}
	msgs := make([]contract.Outgoing, n)
	for i := range msgs {
		msgs[i].Message = m
	}
	return func() {
		for _, err := range b.Publisher().Send(t.Context(), msgs)() {
			if err != nil {
				t.Errorf("Send() = %v, want nil", err)
			}
		}
	}
}

func sample() *waybill.Message {
	return &waybill.Message{
		ID: "1", Type: "t", Source: "s", Topic: "orders", Key: "k", Tenant: "acme", Payload: []byte("{}\x00"),
		ContentType: "application/json", TraceParent: "00-a-b-01", CorrelationID: "c",
		Time: time.Date(2026, 1, 2, 3, 4, 5, 600_000, time.UTC), Headers: map[string]string{"x": "ü"},
	}
}

// TestPublisher_EntryIsFrozen fails if an entry is written in another way: other programs read it.
func TestPublisher_EntryIsFrozen(t *testing.T) {
	t.Parallel()
	var args []string
	send(t, sample(), 1, func(list []any) {
		for _, arg := range list {
			if p, ok := arg.(*string); ok {
				arg = *p
			}
			args = append(args, arg.(string))
		}
	})()
	if len(args) < 4 || len(args)%2 != 0 {
		t.Fatalf("%q was sent", args)
	}
	if c := [4]string(args); c != [4]string{"xadd", "waybill:{topic:orders}", "nomkstream", "*"} {
		t.Errorf("the command begins with %q", c)
	}
	got := make(map[string]string)
	for i := 4; i < len(args); i += 2 {
		got[args[i]] = args[i+1]
	}
	want := map[string]string{
		"ce_specversion": "1.0", "ce_id": "1", "ce_type": "t", "ce_source": "s", "ce_partitionkey": "k",
		"ce_tenant": "acme", "ce_traceparent": "00-a-b-01", "ce_correlationid": "c",
		"ce_time": "2026-01-02T03:04:05.0006Z", "content-type": "application/json", "header_x": "ü", "data": "{}\x00",
	}
	if !maps.Equal(got, want) || len(args) != 4+2*len(want) {
		t.Errorf("fields %q, want %q", args[4:], want)
	}
}

// TestPublisher_Allocations fails if each field costs an allocation. The sample's are its key, time,
// payload and the name of its header; the fields, the arguments, and the command itself. The test is
// not parallel, as it counts what the whole program allocates.
func TestPublisher_Allocations(t *testing.T) {
	const n, limit = 100, 8
	if got := testing.AllocsPerRun(20, send(t, sample(), n, func([]any) {})) / n; got >= limit {
		t.Errorf("%.2f allocations for each message, want less than %d", got, limit)
	}
}
