package waybilltest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/waybilltest"
)

// failing are tests that the package has to fail, by what they must say. Each runs in a
// process of its own.
var failing = map[string]struct {
	test func(t *testing.T)
	want string
}{
	"outside of a bubble": {
		func(t *testing.T) { waybilltest.New(t) },
		"New must be called within synctest.Test",
	},
	"a crash that does not come": {
		inBubble(func(_ *testing.T, k *waybilltest.Kit) { k.CrashAfter(3); k.Enqueue(order) }),
		"CrashAfter was called, and handlers have taken fewer steps since",
	},
	"an unknown id": {
		inBubble(func(_ *testing.T, k *waybilltest.Kit) { k.Redeliver("o-18") }),
		`no message with the id "o-18" was published`,
	},
	"a message that is refused": {
		inBubble(func(_ *testing.T, k *waybilltest.Kit) { k.Enqueue(waybill.Message{ID: "o-17"}) }),
		"Topic",
	},
	"a consumer that is refused": {
		inBubble(func(_ *testing.T, k *waybilltest.Kit) { k.Consume(orders, bill(k), consumer.Config{BatchSize: 2}) }),
		"BatchSize",
	},
	"an event of another type": {
		inBubble(func(t *testing.T, k *waybilltest.Kit) {
			k.Enqueue(waybill.Message{ID: "o-17", Topic: "orders", Payload: []byte(`"text"`)})
			waybilltest.Published[invoice](t, k, "orders")
		}),
		`message o-17 in topic "orders" does not decode as waybilltest_test.invoice`,
	},
	"no end": {
		inBubble(func(_ *testing.T, k *waybilltest.Kit) {
			k.Consume(orders, func(ctx context.Context, tx *memstore.Tx, _ *waybill.Message) error {
				_, err := k.Outbox().Enqueue(ctx, tx, waybill.Message{Topic: "orders"})
				return err
			}, consumer.Config{})
			k.Enqueue(order)
		}),
		"no end in sight after 10000 messages",
	},
	"the schedule of a failed test": {
		inBubble(func(t *testing.T, k *waybilltest.Kit) {
			k.Consume(orders, bill(k), consumer.Config{})
			k.Enqueue(order)
			t.Fail()
		}),
		"billing handles o-17",
	},
	"a handler that is caught": {
		func(t *testing.T) {
			waybilltest.CheckOnce(t, subject(func(b *bank, _ *memstore.Store) handler {
				return func(context.Context, *memstore.Tx, *waybill.Message) error { return b.charge() }
			}))
		},
		"the effect is not once under this schedule",
	},
}

func inBubble(test func(t *testing.T, k *waybilltest.Kit)) func(t *testing.T) {
	return func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, waybilltest.New(t)) })
	}
}

const failingTest = "WAYBILLTEST_FAILING"

// TestFailing runs the tests that must fail.
func TestFailing(t *testing.T) {
	t.Parallel()
	if name := os.Getenv(failingTest); name != "" { // this is the process of its own
		failing[name].test(t)
		return
	}
	for name, tt := range failing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFailing$")
			cmd.Env = append(os.Environ(), failingTest+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestFailing") || !strings.Contains(string(out), tt.want) {
				t.Errorf("the test ended with %v, want it to fail with %q:\n%.2000s", err, tt.want, out)
			}
		})
	}
}
