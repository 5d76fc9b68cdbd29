// Package inbox holds the contract by which a message is processed once per consumer.
//
// The record that a message was processed commits in the same transaction as the handler's
// own writes: insert first, and only the one whose insert succeeds runs the handler. A
// redelivery finds the record and is skipped; a crash before the commit leaves neither the
// record nor the effect.
package inbox

import "errors"

var (
	errNoID     = errors.New("inbox: message has neither an id nor an idempotency key")
	errConflict = errors.New("inbox: message was processed before with another payload")
)
