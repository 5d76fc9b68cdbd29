package redisbroker

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// TestPublisher_LooksForANewMaster: the broker asks at once who has the slots of a node that does not answer.
func TestPublisher_LooksForANewMaster(t *testing.T) {
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
	b := &Broker{cfg: Config{Prefix: defaultPrefix, MaxPayload: waybill.MaxPayloadLen}, client: client}
	b.publisher = &publisher{broker: b}
	for _, err := range b.Publisher().Send(t.Context(), []contract.Outgoing{{Message: sample()}})() {
		if !waybill.IsUnavailable(err) {
			t.Errorf("Send() = %v, want unavailable: nobody listens", err)
		}
	}
	<-asked // to send at all
	<-asked
}
