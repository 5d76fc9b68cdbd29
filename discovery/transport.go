package discovery

import (
	"context"
	"fmt"
	"strings"

	"github.com/waybill-go/waybill"
)

// Transport carries pings, answers and announcements. Brokers implement it; it is safe for
// concurrent use. Bus and group consist of letters, digits, '-', '_' and '%', at most 90 of them.
// Nothing is stored: what no one receives at the time is lost.
type Transport interface {
	// Ping publishes a ping to the listeners for bus and group, once it can receive answers, and calls
	// hear with each answer to this ping, and with each announcement for bus and group, whose
	// correlation id is "". It calls hear sequentially, until ctx ends, and then returns nil. Any other
	// end is an error, unavailable if the broker does not answer.
	Ping(ctx context.Context, bus, group, correlationID string, ping []byte, hear func(correlationID string, body []byte)) error

	// Listen subscribes to pings for bus and group; then it publishes announcement, and calls answer
	// for each ping, sequentially. What answer returns is sent to the client that has pinged, unless it
	// is nil. It ends as Ping does.
	Listen(ctx context.Context, bus, group string, announcement []byte, answer func(correlationID string, ping []byte) []byte) error
}

const (
	// maxBodyLen is the size of the largest ping or announcement that is read, in bytes.
	maxBodyLen = 16 << 10

	maxWordLen = 90 // of bus and group, escaped
)

// The defaults of Bus and Group.
const (
	DefaultBus   = "rabbit"
	DefaultGroup = "workers"
)

// word returns the name of a bus or a group as one word of a routing key or a subject, with special
// characters escaped.
func word(field, name string) (string, error) {
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() > maxWordLen {
		return "", invalid(field, "has %d bytes as a part of a routing key, the limit is %d", b.Len(), maxWordLen)
	}
	return b.String(), nil
}

func invalid(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: "discovery." + field, Reason: fmt.Sprintf(format, args...)}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
