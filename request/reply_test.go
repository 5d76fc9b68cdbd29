package request

import (
	"context"
	"errors"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/outbox"
)

// fakeStore is an outbox store whose transactions are lists of messages.
type fakeStore struct {
	outbox.Store[*[]waybill.Message]
}

func (fakeStore) EnqueueMessages(_ context.Context, tx *[]waybill.Message, b outbox.Batch) ([]bool, error) {
	*tx = append(*tx, b.Messages...)
	return make([]bool, len(b.Messages)), nil
}

func requested(headers map[string]string) *waybill.Message {
	return &waybill.Message{ID: "r1", To: "prices", Type: "price@v2", Tenant: "acme", CorrelationID: "flow", Headers: headers}
}

func TestReply(t *testing.T) {
	t.Parallel()
	writer, err := outbox.NewWriter[*[]waybill.Message](fakeStore{}, outbox.Config{Source: "prices", Observer: new(events)})
	if err != nil {
		t.Fatal(err)
	}
	var now waybill.Message
	b := newFake(func(o contract.Outgoing) error { now = *o.Message; return nil })
	to := NewAddress()
	ctx := waybill.WithMessage(t.Context(), requested(map[string]string{AddressHeader: to}))
	var tx []waybill.Message
	if err := Reply(ctx, writer, &tx, waybill.Message{Payload: []byte("42")}); err != nil {
		t.Fatalf("Reply() = %v", err)
	}
	if err := ReplyNow(ctx, b, "prices", waybill.Message{Payload: []byte("42")}); err != nil {
		t.Fatalf("ReplyNow() = %v", err)
	}
	for how, m := range map[string]waybill.Message{"Reply": tx[0], "ReplyNow": now} {
		if m.To != to || m.CausationID != "r1" || m.CorrelationID != "flow" || m.Tenant != "acme" ||
			m.Type != "price.reply" || m.Source != "prices" || string(m.Payload) != "42" {
			t.Errorf("%s() sends %+v", how, m)
		}
	}
}

func TestReply_NotAsked(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*waybill.Message{
		"no message":             nil,
		"no header":              requested(nil),
		"address of another one": requested(map[string]string{AddressHeader: "payments"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			if m != nil {
				ctx = waybill.WithMessage(ctx, m)
			}
			var tx []waybill.Message
			err := Reply(ctx, (*outbox.Writer[*[]waybill.Message])(nil), &tx, waybill.Message{})
			if !errors.Is(err, ErrNotAsked) || !waybill.IsPermanent(err) {
				t.Errorf("Reply() = %v, want ErrNotAsked, permanent", err)
			}
			if err := ReplyNow(ctx, newFake(nil), "prices", waybill.Message{}); !errors.Is(err, ErrNotAsked) {
				t.Errorf("ReplyNow() = %v, want ErrNotAsked", err)
			}
		})
	}
}

func TestLabel(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"orders": "orders", NewAddress(): "waybill-reply", "waybill-reply": "waybill-reply"} {
		if got := Label(address); got != want {
			t.Errorf("Label(%q) = %q, want %q", address, got, want)
		}
	}
}
