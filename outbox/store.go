package outbox

import (
	"context"

	"github.com/waybill-go/waybill"
)

// Identity is what tells messages on their way apart: ids are unique for each source and tenant.
type Identity struct{ Source, Tenant, ID string }

// IdentityOf returns the identity of a message.
func IdentityOf(m *waybill.Message) Identity { return Identity{m.Source, m.Tenant, m.ID} }

// Store writes messages in a transaction of type Tx. Stores implement it.
type Store[Tx any] interface {
	// EnqueueMessages stores msgs, which are complete and valid, in tx, with one statement
	// and one round trip where the database allows it, in the order of the slice. It reports
	// for each message whether it is new: false means that one with its [Identity] is on its way
	// already (in the outbox or waiting) or, with unique set, was enqueued with unique set within
	// the outbox retention. A message that is not new changes nothing, except that with unique set
	// its identity is remembered, and tx stays usable. If tx is nil, a nil pointer included, nothing is
	// stored, and the error is an [*waybill.InvalidError] about the field tx.
	EnqueueMessages(ctx context.Context, tx Tx, msgs []waybill.Message, unique bool) ([]bool, error)

	// Transact runs fn in a transaction of its own, enqueues what fn returns in it, and
	// commits. An error or panic of fn rolls back. Clashes with other transactions come back
	// as conflicts; Transact itself does not repeat fn. After the commit it wakes relays
	// that share this store object.
	Transact(ctx context.Context, fn func(ctx context.Context, tx Tx) ([]waybill.Message, error), unique bool) ([]bool, error)

	// CancelEnqueued removes the message with an identity in tx, as [Writer.Cancel] says, and keeps it
	// as a dead letter that is discarded, one for each place. The error for a tx that is nil is as above.
	CancelEnqueued(ctx context.Context, tx Tx, id Identity) (Cancellation, error)

	// WakeRelay tells relays that share this store object that messages were committed.
	WakeRelay()
}
