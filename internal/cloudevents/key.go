package cloudevents

import "github.com/waybill-go/waybill"

// keyHeader is the header for the key of producers that do not use the attribute idempotencykey.
const keyHeader = "x-idempotency-key"

// FillInKey sets the idempotency key of a received message from the header x-idempotency-key, unless an
// attribute has set it. The header is removed, so that another message with the headers of m does not
// get the key of m.
func FillInKey(m *waybill.Message) {
	key, found := m.Headers[keyHeader]
	if !found {
		return
	}
	if delete(m.Headers, keyHeader); len(m.Headers) == 0 {
		m.Headers = nil
	}
	if m.IdempotencyKey == "" {
		m.IdempotencyKey = key
	}
}
