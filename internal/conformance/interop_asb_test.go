package conformance

import (
	"context"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/asbbroker"
	"github.com/waybill-go/waybill/consumer"
)

// Microsoft's client for JavaScript reads what asbbroker publishes, and asbbroker reads what that
// publishes.
func TestInteropASB(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	b := a.open(t, asbbroker.Config{})
	s := consumer.Subscription{Group: "js", Topics: []string{"orders"}}
	answers := consumer.Subscription{Group: "go", To: "answers"}
	asbApply(t, b, s, answers)
	sent := waybill.Message{
		ID: "o-17", Type: "order.created", Source: "shop", Topic: "orders", Key: "customer-1",
		ContentType: "application/json", Payload: []byte(`{"total":12}`), Headers: map[string]string{"x-user": "ann"},
	}
	must(t, asbSend(t, b, sent))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	script := exec.CommandContext(ctx, "node", "servicebus/roundtrip.mjs", a.connection, "orders", "js", "to/answers")
	script.Dir = "../../examples/interop"
	out, err := script.Output()
	if err != nil {
		t.Fatalf("roundtrip.mjs: %v\n%s", err, out)
	}
	var got struct {
		Body       map[string]int
		Subject    string
		Properties map[string]string
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("roundtrip.mjs printed %q: %v", out, err)
	}
	for name, want := range map[string]string{
		"cloudEvents:id": "o-17", "cloudEvents:type": "order.created", "cloudEvents:source": "shop",
		"cloudEvents:partitionkey": "customer-1", "x-user": "ann",
	} {
		if got.Properties[name] != want {
			t.Errorf("JavaScript read %s = %q, want %q", name, got.Properties[name], want)
		}
	}
	if got.Body["total"] != 12 || got.Subject != "order.created" {
		t.Errorf("JavaScript read body %v, subject %q", got.Body, got.Subject)
	}

	d, text := asbNext(t, asbReceive(t, b, answers, 1))
	m, _ := d.Message()
	if m.ID != "answer-1" || m.Type != "order.answered" || m.Source != "interop" || text != `{"received":"o-17"}` {
		t.Errorf("read %+v, payload %s", m, text)
	}
}
