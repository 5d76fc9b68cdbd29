package contract

import "time"

// Redelivery says for how long a broker may redeliver a message that was handled before.
type Redelivery struct {
	// Bound is how long after a message was published the broker keeps it at most. 0 stands
	// for one that forgets it when the program ends.
	Bound time.Duration

	// Unbounded says that the broker keeps a message until it is acknowledged, however long
	// that takes. Bound is 0 then.
	Unbounded bool

	// DuplicateWindow is how long the broker drops what a relay publishes a second time; 0 if it does
	// not.
	DuplicateWindow time.Duration
}

// Redeliverer is a [Subscriber], or a broker, that knows for how long it may redeliver a
// message.
type Redeliverer interface {
	// Redelivery returns the current limits. It asks no server and is safe for concurrent use.
	Redelivery() Redelivery
}

// RedeliveryOf returns the limits of a [Subscriber] or a broker. One that is no
// [Redeliverer] is taken to be unbounded.
func RedeliveryOf(from any) Redelivery {
	if r, ok := from.(Redeliverer); ok {
		return r.Redelivery()
	}
	return Redelivery{Unbounded: true}
}
