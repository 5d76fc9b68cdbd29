package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
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
}

const maxRate = 1e6

const (
	lossLimit = 2 // lost connections after which a message is sent alone

	// A message is poison if this many connections ended with it alone on them, each just after the
	// destination had taken another message: else it may be the broker that is failing.
	aloneLimit = 2
)

// outlet is a destination with what the relay remembers about it. The backlog's mutex guards
// gates and pace.
type outlet struct {
	Destination
	timeout time.Duration

	main  *gate
	sides map[string]*gate // by topic
	aside int              // batches that have left by side gates
	mixed []*batch         // of several topics, set aside and not answered
	pace  pace
	alone bool // a message that may end the connection is under way: no other leaves

	passage *passage // alone for a message that may kill the connection it is on

	mu       sync.Mutex
	accepted int64           // messages that the destination has taken
	sends    int64           // begun so far, which numbers them
	answered int64           // the latest of them of which a message was taken
	heard    time.Time       // when the latest of those began
	cut      int64           // sends when a connection was last lost
	losses   map[int64]loss  // by position
	doubts   map[int64]doubt // by position
}

// loss counts the connections that ended while a message was unconfirmed on them.
type loss struct {
	inBatch, alone int
	blamed         int // of those alone, the ones that speak against the message
}

func newOutlet(d Destination, timeout time.Duration) *outlet {
	o := &outlet{Destination: d, timeout: timeout, passage: newPassage(), losses: make(map[int64]loss), doubts: make(map[int64]doubt)}
	o.reset()
	return o
}

// reset gives the outlet new gates.
func (o *outlet) reset() {
	o.main = &gate{outlet: o}
	o.sides = make(map[string]*gate)
	o.aside, o.mixed, o.alone = 0, nil, false
	o.pace = pace{rate: o.Rate}
}

// taken returns how many messages the destination has accepted.
func (o *outlet) taken() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.accepted
}

// suspicious reports whether the message at a position must be sent alone.
func (o *outlet) suspicious(position int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.losses[position].inBatch >= lossLimit
}

// accused reports whether a connection ended with the message at a position alone on it, and
// nothing has shown since that the destination is well.
func (o *outlet) accused(position int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.losses[position].alone > 0 && !o.well()
}

// well reports whether the destination has taken something that was sent after a connection to it
// was last lost. The lock is held.
func (o *outlet) well() bool { return o.answered > o.cut }

// send publishes claims and returns one error per claim. A panic of the publisher counts as
// a lost connection: the message that causes it is found in the same way.
func (o *outlet) send(ctx context.Context, claims []*Claim, alone bool) []error {
	o.passage.enter(alone)
	defer o.passage.leave(alone)
	limit := o.timeout
	if !alone && o.confirmsLate() {
		limit *= lateLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	out, number := o.outgoing(claims)
	errs := o.call(ctx, out)
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, c := range claims {
		if errs[i] == nil && began.After(o.heard) {
			o.heard = began
		}
		errs[i] = o.learn(c, errs[i], number, alone)
		o.learnDoubt(c, errs[i], began)
	}
	return errs
}

// outgoing returns what a publisher needs of claims, and the number of the send.
func (o *outlet) outgoing(claims []*Claim) (out []Outgoing, number int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sends++
	out = make([]Outgoing, len(claims))
	for i, c := range claims {
		_, doubted := o.doubtOf(c)
		out[i] = Outgoing{
			Message: &c.Message,
			Row:     Row{Lane: c.Lane.Number, Position: c.Position, Destination: c.Destination},
			DedupID: dedupID(c.Message.ID, c.Life),
			Resent:  c.Attempts > 0 || doubted,
		}
	}
	return out, o.sends
}

func dedupID(id string, life int) string {
	if life == 0 {
		return id
	}
	return fmt.Sprintf("%s#r%d", id, life)
}

func (o *outlet) call(ctx context.Context, out []Outgoing) (errs []error) {
	defer func() {
		if p := recover(); p != nil {
			err := waybill.UnavailableError(fmt.Errorf("publisher panicked: %v: %w", p, waybill.ErrConnectionLost))
			errs = fillErrors(len(out), err)
		}
	}()
	errs = o.Publisher.Send(ctx, out)()
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

// learn keeps what the result of a send says about a message and returns the result, made
// permanent if the message has proved to be poison.
func (o *outlet) learn(c *Claim, err error, send int64, alone bool) error {
	if err == nil {
		o.accepted++
		o.answered = max(o.answered, send)
	}
	if !waybill.IsUnavailable(err) {
		delete(o.losses, c.Position)
		return err
	}
	if !errors.Is(err, waybill.ErrConnectionLost) || !o.blame(c, alone) {
		return err
	}
	delete(o.losses, c.Position)
	return waybill.PermanentError(waybill.ReasonPoison,
		fmt.Errorf("the connection ended %d times with this message alone on it, while others were accepted: %w", aloneLimit, err))
}

// blame counts a lost connection, and reports whether the message is the cause. One that it was
// alone on speaks against it only if the destination has taken something that was sent after the
// connection before was lost: an outage ends every connection, and must not turn messages into
// poison one by one.
func (o *outlet) blame(c *Claim, alone bool) bool {
	l := o.losses[c.Position]
	if !alone {
		l.inBatch++
	} else if l.alone++; o.well() {
		l.blamed++
	}
	o.losses[c.Position] = l
	o.cut = o.sends
	return l.blamed >= aloneLimit
}

// forget drops what is remembered about messages of lanes that others own now.
func (o *outlet) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.losses)
	clear(o.doubts)
}
