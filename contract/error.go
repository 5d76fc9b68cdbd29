package contract

import "errors"

var (
	// ErrConnectionLost marks an unavailable error of a publisher whose connection or
	// channel ended, not by the publisher's own doing, while the messages were on it. Two of
	// these in a row make a relay look for the message that kills the connection.
	ErrConnectionLost = errors.New("waybill: connection lost")

	// ErrSwallowed marks a transient error of a publisher whose broker answered "duplicate"
	// to the first attempt of a message, so that it may have been dropped in favour of another one. A
	// relay sends the message again under a new deduplication id.
	ErrSwallowed = errors.New("waybill: broker took a first attempt for a duplicate")
)
