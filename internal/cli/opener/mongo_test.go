package opener

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/testtools/mongofake"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/service"
)

// TestMongo_Relay publishes what a program has enqueued in MongoDB, as the command does.
func TestMongo_Relay(t *testing.T) {
	t.Parallel()
	server, err := mongofake.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	store, err := OpenStore(t.Context(), StoreConfig{URL: server.URL(), TablePrefix: "shop_"})
	if err != nil {
		t.Fatalf("OpenStore() = %v", err)
	}
	defer store.Close()
	if _, err := store.Migrate(t.Context(), "", 0); err != nil {
		t.Fatalf("Migrate() = %v", err)
	}
	writer, err := outbox.NewWriter(store.(*mongoDB).Store, outbox.Config{Source: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	broker, delivered := membroker.New(), &atomic.Int64{}
	listen(t, broker, delivered)
	svc, err := store.Service(broker, service.Config{Source: "shop", Observer: quiet{}, Relay: relay.Config{PollInterval: 10 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- svc.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run() = %v", err)
		}
	}()
	result, err := writer.InTx(t.Context(), func(_ context.Context, _ *mongo.Session, rec *outbox.Recorder) error {
		rec.Record(waybill.Message{Topic: "orders", Type: "order.created"})
		return nil
	})
	if err != nil {
		t.Fatalf("InTx() = %v", err)
	}
	eventually(t, func() error {
		states, err := store.MessageStates(t.Context(), result.IDs[0])
		if err == nil && (len(states) != 1 || states[0].Status != inspect.Published) {
			err = fmt.Errorf("the message is %+v, want it published", states)
		}
		return err
	})
	eventually(t, func() error {
		if n := delivered.Load(); n != 1 {
			return fmt.Errorf("%d messages have arrived, want 1", n)
		}
		return nil
	})
}
