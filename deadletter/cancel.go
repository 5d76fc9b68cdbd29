package deadletter

import (
	"context"

	"github.com/waybill-go/waybill/outbox"
)

// Canceller cancels messages of the outbox for operators. Stores implement it.
type Canceller interface {
	// CancelMessage removes a message that is not published yet, as [outbox.Writer] says of Cancel,
	// in a transaction of its own, and wakes relays that share the store object. Each dead letter that results has
	// an entry in the audit log. Tenant of id is required, and Source is used as it is. An act that [Act.Check]
	// refuses, or an id that [outbox.Identity.Check] refuses, is an error.
	CancelMessage(ctx context.Context, id outbox.Identity, act Act) (outbox.Cancellation, error)
}
