package outbox

import (
	"context"

	"github.com/waybill-go/waybill"
)

// Identity is what tells messages on their way apart: ids are unique for each source and tenant.
type Identity struct{ Source, Tenant, ID string }

// IdentityOf returns the identity of a message.
func IdentityOf(m *waybill.Message) Identity { return Identity{m.Source, m.Tenant, m.ID} }

// Batch is what a store enqueues together.
type Batch struct {
	// Messages are complete and valid.
	Messages []waybill.Message

	// Remember keeps the identities for the outbox retention, as Config.Unique says.
	Remember bool

	// Fresh says that each id was made for its message alone, at random: no other message can have it, and nobody
	// needs to look.
	Fresh bool
}

// Store writes messages in a transaction of type Tx. Stores implement it.
type Store[Tx any] interface {
	// EnqueueMessages stores a batch in tx, with one statement and one round trip where the database allows it, in
	// the order of the slice. It reports for each message whether it is new: false means that one with its
	// [Identity] is on its way already (in the outbox or waiting) or, with Remember set, was enqueued with it
	// within the outbox retention. A message that is not new changes nothing, except that with Remember
	// its identity is remembered, and tx stays usable. If tx is nil, a nil pointer included, nothing is
	// stored, and the error is an [*waybill.InvalidError] about the field tx.
	EnqueueMessages(ctx context.Context, tx Tx, b Batch) ([]bool, error)

	// Transact runs fn in a transaction of its own, enqueues what fn returns in it, and
	// commits. An error or panic of fn rolls back. Clashes with other transactions come back
	// as conflicts; Transact itself does not repeat fn. After the commit it wakes relays
	// that share this store object.
	Transact(ctx context.Context, fn func(ctx context.Context, tx Tx) (Batch, error)) ([]bool, error)

	// CancelEnqueued removes the message with an identity in tx, as [Writer.Cancel] says, and keeps it
	// as a dead letter that is discarded, one for each place. The error for a tx that is nil is as above.
	CancelEnqueued(ctx context.Context, tx Tx, id Identity) (Cancellation, error)

	// WakeRelay tells relays that share this store object that messages were committed.
	WakeRelay()
}
