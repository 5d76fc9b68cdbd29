package redisbroker

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// refusing stands for a server that answers nothing but an error.
type refusing string

func (r refusing) Error() string                             { return string(r) }
func (refusing) RedisError()                                 {}
func (refusing) DialHook(next redis.DialHook) redis.DialHook { return next }
func (r refusing) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return r }
}
func (r refusing) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.SetErr(r)
		}
		return r
	}
}

// TestPublisher_LooksForANewMaster: the broker asks at once who has the slots of a node that does not answer, or does not serve them.
func TestPublisher_LooksForANewMaster(t *testing.T) {
	t.Parallel()
	for name, node := range map[string]func(*redis.Client){
		"nobody listens": func(*redis.Client) {},
		"moved":          func(c *redis.Client) { c.AddHook(refusing("MOVED 1 127.0.0.1:2")) },
		"cut off":        func(c *redis.Client) { c.AddHook(refusing("CLUSTERDOWN The cluster is down")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 1000)
			client := redis.NewClusterClient(&redis.ClusterOptions{
				MaxRetries: -1,
				ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
					asked <- struct{}{}
					return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}}}, nil
				},
			})
			t.Cleanup(func() { client.Close() })
			client.OnNewNode(node)
			b := &Broker{cfg: Config{Prefix: defaultPrefix, MaxPayload: waybill.MaxPayloadLen}, client: client}
			b.publisher = &publisher{broker: b}
			for _, err := range b.Publisher().Send(t.Context(), []contract.Outgoing{{Message: sample()}})() {
				if !waybill.IsUnavailable(err) {
					t.Errorf("Send() = %v, want unavailable", err)
				}
			}
			<-asked // to send at all
			<-asked
		})
	}
}
