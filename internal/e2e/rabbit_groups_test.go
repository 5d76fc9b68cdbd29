package e2e

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/memstore"
)

// TestRetryGoesToTheFailingGroup (AS-63): two groups receive a message, one fails twice. The other
// sees it once.
func TestRetryGoesToTheFailingGroup(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn := b.connect(t)
		var failing, other atomic.Int64
		start := func(name string, count *atomic.Int64, fails int64) {
			w.startConsumer(t, b.subscribe(t, conn, name, "orders"), func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
				if count.Add(1) <= fails {
					return errors.New("not yet")
				}
				return w.addEffect(ctx, tx, name, m.ID)
			}, consumer.Config{})
		}
		start("billing", &failing, 2)
		start("shipping", &other, 0)
		publish(t, conn, waybill.Message{ID: "m", Topic: "orders"}, "m")
		w.waitEffects(t, "billing", "m", 1)
		w.waitEffects(t, "shipping", "m", 1)
		for _, name := range []string{"billing", "shipping"} {
			eventually(t, name+" has nothing left", func() bool { return b.unsettled(t, name) == 0 })
		}
		if failing.Load() != 3 || other.Load() != 1 {
			t.Errorf("%d attempts of the failing group and %d of the other, want 3 and 1", failing.Load(), other.Load())
		}
	})
}

// TestLettersOnTheBrokerArrive (AS-63) gives a message up into a topic of the broker, with the reason
// in headers. Where a topic that nobody has bound is refused, the message stays until one has.
func TestLettersOnTheBrokerArrive(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn, ops := b.connect(t), newOpCounter()
		var attempts atomic.Int64
		w.startLeased(t, b.subscribe(t, conn, "mailer", "mails"), memstore.New(), func(context.Context, *waybill.Message) error {
			attempts.Add(1)
			return waybill.PermanentError(waybill.ReasonRejected, errors.New("no such address"))
		}, consumer.Leases{Letters: service.LettersTo(conn.Publisher(), "mails.dead")}, consumer.Config{Observer: ops})
		publish(t, conn, waybill.Message{ID: "m", Topic: "mails", Payload: []byte(`{"to":1}`)}, "m")
		if b.Kind == "rabbit" {
			eventually(t, "dead-lettering fails twice", func() bool { return attempts.Load() >= 2 })
			if n := ops.count(observe.OpDead); n != 0 {
				t.Errorf("%d letters are reported, and none was stored", n)
			}
		}
		letters := b.subscribe(t, conn, "letters", "mails.dead")
		got := make(chan *waybill.Message, 10)
		run(t, t.Context(), func(ctx context.Context) error {
			return letters.sub.Subscribe(ctx, 1, func(d contract.Delivery) {
				m, _ := d.Message()
				got <- m
				_ = d.Ack(ctx)
			})
		})
		eventually(t, "the letter is there", func() bool { return len(got) > 0 })
		m := <-got
		if m.ID != "m" || string(m.Payload) != `{"to":1}` || m.Headers[deadletter.HeaderReason] != string(waybill.ReasonRejected) {
			t.Errorf("letter %+v, want the message, and why it was dead-lettered", m)
		}
		eventually(t, "the message is done with", func() bool { return b.unsettled(t, "mailer") == 0 && ops.count(observe.OpDead) == 1 })
	})
}
