package outbox

import (
	"context"

	"github.com/waybill-go/waybill"
)

// Identity identifies a message in the outbox: ids are unique for each source and tenant.
type Identity struct{ Source, Tenant, ID string }

// IdentityOf returns the identity of a message.
func IdentityOf(m *waybill.Message) Identity { return Identity{m.Source, m.Tenant, m.ID} }

// Batch is a set of messages that a store enqueues together.
type Batch struct {
	// Messages are complete and valid.
	Messages []waybill.Message

	// Remember keeps the identities for the outbox retention, as Config.Unique says.
	Remember bool

	// Fresh says that each id was generated at random for its message: no other message can have it, and the
	// store need not check.
	Fresh bool
}

// Store writes messages in a transaction of type Tx. Stores implement it.
type Store[Tx any] interface {
	// EnqueueMessages stores a batch in tx, with one statement and one round trip where the database allows it, in
	// the order of the slice. It reports for each message whether it is new: false means that one with its
	// [Identity] is already pending (in the outbox or waiting) or, with Remember set, was enqueued within the
	// outbox retention. A message that is not new changes nothing, except that with Remember its identity is
	// remembered, and tx stays usable. If tx is nil, a nil pointer included, nothing is
	// stored, and the error is an [*waybill.InvalidError] about the field tx.
	EnqueueMessages(ctx context.Context, tx Tx, b Batch) ([]bool, error)

	// Transact runs fn in a transaction of its own, enqueues what fn returns in it, and
	// commits. An error or panic of fn rolls back. Clashes with other transactions are returned as
	// conflicts; Transact itself does not repeat fn. After the commit it wakes relays
	// that share this store object.
	Transact(ctx context.Context, fn func(ctx context.Context, tx Tx) (Batch, error)) ([]bool, error)

	// CancelEnqueued removes the message with an identity in tx, as [Writer.Cancel] says, and keeps it as
	// a discarded dead letter, one for each row. The error for a tx that is nil is as above.
	CancelEnqueued(ctx context.Context, tx Tx, id Identity) (Cancellation, error)

	// WakeRelay notifies relays that share this store object that messages were committed.
	WakeRelay()
}
