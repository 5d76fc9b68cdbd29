package brokerkit

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/waybill-go/waybill"
)

// Decoded is the message of a delivery, which is decoded when somebody first asks for it.
type Decoded struct {
	once    sync.Once
	message *waybill.Message
	err     error
}

// Get returns what decode returned at the first call.
func (d *Decoded) Get(decode func() (*waybill.Message, error)) (*waybill.Message, error) {
	d.once.Do(func() { d.message, d.err = decode() })
	return d.message, d.err
}

// Fate is what has become of a delivery: it may be passed on to its consumer, and is settled once.
type Fate struct{ handed, settled atomic.Bool }

// ErrSettled is the error of a second settlement.
var ErrSettled = errors.New("it is settled already")

// Hand records that the delivery is passed on and has a slot, unless it is settled.
func (f *Fate) Hand() bool {
	if f.settled.Load() {
		return false
	}
	f.handed.Store(true)
	return true
}

// Handed reports whether the delivery was passed on.
func (f *Fate) Handed() bool { return f.handed.Load() }

// Settled reports whether the delivery is settled.
func (f *Fate) Settled() bool { return f.settled.Load() }

// Take settles the delivery, and reports whether it was open.
func (f *Fate) Take() bool { return !f.settled.Swap(true) }

// Settle is Take for a consumer; doing is what it wants. When the broker is closed nothing is settled any more: the error is
// unavailable and wraps errClosed.
func (f *Fate) Settle(doing string, closed bool, errClosed error) error {
	if closed {
		return waybill.UnavailableError(fmt.Errorf("%s a delivery: %w", doing, errClosed))
	}
	if !f.Take() {
		return fmt.Errorf("%s a delivery: %w", doing, ErrSettled)
	}
	return nil
}
