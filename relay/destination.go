package relay

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// Destination is a publisher with a name of its own among several.
type Destination struct {
	// Name identifies the destination in stored rows, logs and metrics: do not change it
	// while messages wait for it. Required and unique, unless there is only one destination.
	Name string

	// Publisher takes the messages. Required.
	Publisher Publisher

	// Match says which messages are for this destination. It is asked for each attempt of a
	// message; if it panics, that attempt for this destination has failed. Optional; nil takes all.
	Match func(*waybill.Message) bool

	// Rate is how many messages per second the destination takes, from all relays of the
	// store together; each relay uses the part of its lanes. Tenants take turns. Up to a
	// million. Optional; 0 means no limit.
	Rate float64

	// Structured writes messages in the structured content mode of CloudEvents: the body is an event in
	// the JSON format, with the attributes and the payload. Optional; the default is the binary mode, in
	// which the body is the payload and the attributes stand beside it.
	Structured bool
}

const maxRate = 1e6

// outlet is a destination as the relay calls it.
type outlet struct {
	Destination
	follower bool
	late     bool          // it is a LateConfirmer
	sent     chan struct{} // closed when the latest batch was handed over; the relay's mutex guards it
}

// matches reports whether a message is for the destination. One whose Match panics is taken for
// a match, so that the message has a row for it: the panic is the failure of that row, which is
// asked about again at each of its attempts.
func (o *outlet) matches(m *waybill.Message) (yes bool, err error) {
	if o.Match == nil {
		return true, nil
	}
	err = loop.Protect(func() error {
		yes = o.Match(m)
		return nil
	})
	return yes || err != nil, err
}

// outgoing returns what a publisher needs of a batch.
func outgoing(b *relaycore.Batch, structured bool) []Outgoing {
	out := make([]Outgoing, len(b.Messages))
	for i, m := range b.Messages {
		c := claimOf(m)
		out[i] = Outgoing{
			Message:    &c.Message,
			Row:        Row{Lane: m.Lane.Number, Position: m.Position, Destination: m.Dest},
			DedupID:    dedupID(c.Message.ID, m.Life),
			Resent:     m.Resent,
			Structured: structured,
		}
	}
	return out
}

func dedupID(id string, life int) string {
	if life == 0 {
		return id
	}
	return fmt.Sprintf("%s#r%d", id, life)
}

// send publishes messages and returns one error for each. handedOver is called when the next batch may
// be handed over, too. A panic of the publisher counts as a lost connection: the message that causes it
// is found in the same way.
func (o *outlet) send(ctx context.Context, out []Outgoing, handedOver func()) (errs []error) {
	defer func() {
		if p := recover(); p != nil {
			err := waybill.UnavailableError(fmt.Errorf("publisher panicked: %v: %w", p, waybill.ErrConnectionLost))
			errs = fillErrors(len(out), err)
		}
	}()
	wait := o.Publisher.Send(ctx, out)
	handedOver()
	errs = wait()
	if len(errs) != len(out) {
		err := waybill.UnavailableError(fmt.Errorf("publisher returned %d results for %d messages", len(errs), len(out)))
		return fillErrors(len(out), err)
	}
	for i, err := range errs {
		errs[i] = readable(err)
	}
	return errs
}

// readable returns err, or, if looking at it panics, an error that says so.
func readable(err error) error {
	if err == nil {
		return nil
	}
	if p := loop.Protect(func() error { _, _ = waybill.ErrorText(err), waybill.KindOf(err); return nil }); p != nil {
		return fmt.Errorf("publisher returned an error that cannot be read: %w", p)
	}
	return err
}

func fillErrors(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
