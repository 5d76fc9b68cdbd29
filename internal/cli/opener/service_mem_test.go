package opener

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/memstore"
)

// A service with a remote and a local consumer, as the test of a user's handlers has it. The
// local one fails at first; neither handles anything twice.
func TestService_InMemory(t *testing.T) {
	t.Parallel()
	broker := membroker.New()
	defer broker.Close()
	svc, err := service.New(memstore.New(), broker, service.Config{
		Source:   "shop",
		Observer: quiet{},
		Relay:    relay.Config{PollInterval: 10 * time.Millisecond},
		Consumer: consumer.Config{Retry: waybill.RetryPolicy{BaseDelay: 10 * time.Millisecond}},
	})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(map[string]bool)
	local := func(ctx context.Context, tx *memstore.Tx, m *waybill.Message) error {
		count(tx, "local")
		if !failed[m.ID] { // the store runs one transaction at a time
			failed[m.ID] = true
			return errors.New("not at first")
		}
		return nil
	}
	remote := func(_ context.Context, tx *memstore.Tx, _ *waybill.Message) error { count(tx, "remote"); return nil }
	sub := consumer.Subscription{Group: "billing", Topics: []string{"orders"}}
	if err := errors.Join(svc.Local("index", nil, local, consumer.Config{}), svc.Consume(sub, remote, consumer.Config{})); err != nil {
		t.Fatal(err)
	}
	stop := run(t, svc)
	_, err = svc.Outbox().InTx(t.Context(), func(_ context.Context, _ *memstore.Tx, rec *outbox.Recorder) error {
		for _, id := range ids(20) {
			rec.Record(waybill.Message{ID: id, Topic: "orders"})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return counted(t, svc, 20) })
	stop()
	if err := counted(t, svc, 20); err != nil {
		t.Error(err)
	}
}

func count(tx *memstore.Tx, name string) {
	n, _ := tx.Get(name).(int)
	tx.Set(name, n+1)
}

// counted returns an error if not both consumers have n effects.
func counted(t *testing.T, svc *service.Service[*memstore.Tx], n int) (wrong error) {
	t.Helper()
	_, err := svc.Outbox().InTx(t.Context(), func(_ context.Context, tx *memstore.Tx, _ *outbox.Recorder) error {
		if local, remote := tx.Get("local"), tx.Get("remote"); local != n || remote != n {
			wrong = fmt.Errorf("effects: %v local, %v remote, want %d each", local, remote, n)
		}
		return nil
	})
	return errors.Join(wrong, err)
}
