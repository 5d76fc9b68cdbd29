package outbox

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
)

// Cancellation is the result of cancelling a message.
type Cancellation struct {
	// Removed is the number of rows removed: one for each destination that the message waited for. It
	// is 0 if nothing was left to cancel: the message is unknown, published, a dead
	// letter or cancelled already.
	Removed int `json:"removed"`

	// InFlight reports that a relay may already have claimed the message: it may still be published
	// once, and is not retried. It is false if no relay owned the lane of the message, or if the
	// message was not due.
	InFlight bool `json:"in_flight"`
}

// Cancel removes a message that is not published yet in tx, whether it is pending, waits for a retry
// or behind another message, or has a DeliverAt: for every destination that it has not been published
// to. An empty Source of id defaults to that of Config; an empty Tenant to that of the message being
// handled under ctx, or the default tenant.
//
// After tx commits, no relay claims the message; it is a discarded dead letter, reason cancelled,
// which can be restored and requeued, and the next messages of its key are published. A message that
// is not due when it is cancelled is not published, if tx commits before it comes due. One that is
// due may have been claimed by a relay that is publishing it, which cannot be stopped:
// [Cancellation.InFlight] says so. An attempt that failed before may have reached the broker, too.
// With Config.Unique the id of a cancelled message stays remembered.
//
// Until tx ends, relays cannot settle failed messages in the message's lane (on MySQL and MariaDB any
// messages), unless the message was scheduled: keep tx short. After a conflict repeat the transaction.
// Cancel searches all scheduled messages: use package schedule for messages that are cancelled more
// often than not.
func (w *Writer[Tx]) Cancel(ctx context.Context, tx Tx, id Identity) (Cancellation, error) {
	id.Source = cmp.Or(id.Source, w.cfg.Source)
	if cause := waybill.MessageFrom(ctx); cause != nil {
		id.Tenant = cmp.Or(id.Tenant, cause.Tenant)
	}
	id.Tenant = cmp.Or(id.Tenant, waybill.DefaultTenant)
	if err := id.Check(); err != nil {
		return Cancellation{}, err
	}
	return w.store.CancelEnqueued(ctx, tx, id)
}

// Check returns an error that names the field of id that no message can have. An empty Source is that of messages
// whose program names none.
func (id Identity) Check() error {
	switch {
	case id.ID == "":
		return &waybill.InvalidError{Field: "id", Reason: "is required"}
	case id.Tenant == "":
		return &waybill.InvalidError{Field: "tenant", Reason: "is required"}
	case slices.ContainsFunc([]string{id.ID, id.Source, id.Tenant}, unstorable):
		return &waybill.InvalidError{Field: "id", Reason: "is not UTF-8 text, or holds a NUL"}
	}
	return nil
}

// unstorable reports whether no store can hold a text.
func unstorable(text string) bool { return !utf8.ValidString(text) || strings.ContainsRune(text, 0) }
