package cloudevents

import "github.com/waybill-go/waybill"

// keyHeader is the header in which producers that know no attribute idempotencykey send the key.
const keyHeader = "x-idempotency-key"

// FillInKey takes the header x-idempotency-key for the idempotency key of a message that was received,
// unless an attribute has set that. The header goes: another message that is made with the headers of m
// is not to have the key of m.
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
