package relay

import (
	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/loop"
)

// Destination is a named publisher, one of several.
type Destination struct {
	// Name identifies the destination in stored rows, logs and metrics: do not change it
	// while messages wait for it. Required and unique, unless there is only one destination.
	Name string

	// Publisher takes the messages. Required.
	Publisher contract.Publisher

	// Match reports whether a message is for this destination. It is called for each attempt of a
	// message; if it panics, that attempt for this destination has failed. Optional; nil matches all.
	Match func(*waybill.Message) bool

	// Rate is the maximum number of messages per second to the destination, from all relays of the
	// store together; each relay uses the share of its lanes. Tenants are served round robin. Up to a
	// million. Optional; 0 means no limit.
	Rate float64

	// Structured writes messages in the structured content mode of CloudEvents: the body is an event in
	// the JSON format, with the attributes and the payload. Optional; the default is the binary mode, in
	// which the body is the payload and the attributes are headers.
	Structured bool
}

const maxRate = 1e6

// destination is a destination with what the relay needs to call it.
type destination struct {
	Destination
	follower bool
	late     bool // its publisher is a LateConfirmer
}

// matches reports whether a message is for the destination. If Match panics that counts as a match,
// so that the message has a row for the destination: the panic is the failure of that row, and
// Match is called again at each of its attempts.
func (d *destination) matches(m *waybill.Message) (yes bool, err error) {
	if d.Match == nil {
		return true, nil
	}
	err = loop.Protect(func() error {
		yes = d.Match(m)
		return nil
	})
	return yes || err != nil, err
}
