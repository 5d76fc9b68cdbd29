// Package inbox holds the contract by which a message is processed once per consumer.
//
// The record that a message was processed commits in the same transaction as the handler's
// own writes: insert first, and only the one whose insert succeeds runs the handler. A
// redelivery finds the record and is skipped; a crash before the commit leaves neither the
// record nor the effect. That is [Process], for handlers that write to the same store.
//
// For handlers that write elsewhere there is package lease.
package inbox

import "errors"

var (
	errNoID     = errors.New("inbox: message has neither an id nor an idempotency key")
	errConflict = errors.New("inbox: message was processed before with another payload")

	// ErrBusy reports that a message is being processed elsewhere, in a transaction or under a lease
	// that has not ended. It is no failed attempt: try again later.
	ErrBusy = errors.New("inbox: message is being processed elsewhere")
)
