package relay

import (
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
)

// LateConfirmer is a [Publisher] whose broker confirms in its own time, over the connection that it
// received the messages on. Its ctx then ends long after PublishTimeout: until the connection is lost,
// which the publisher notices by itself, or the relay's lease, a late confirm settles what it
// confirms, and nothing is sent again before. A publisher that wraps another one passes it on.
type LateConfirmer interface {
	// ConfirmsLate reports whether it is so. It is safe for concurrent use.
	ConfirmsLate() bool
}

// lateLimit is for how many times PublishTimeout a late confirm is waited for.
const lateLimit = 15

// confirmsLate reports whether the publisher is a LateConfirmer; a panic says that it is not.
func (o *outlet) confirmsLate() (yes bool) {
	if l, ok := o.Publisher.(LateConfirmer); ok {
		_ = loop.Protect(func() error {
			yes = l.ConfirmsLate()
			return nil
		})
	}
	return yes
}

// heardSince reports whether the destination has taken something that was sent after a time.
func (o *outlet) heardSince(t time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.heard.After(t)
}

// patient reports whether the batch is waited for beyond PublishTimeout.
func (b *batch) patient() bool { return !b.alone && b.gate.outlet.confirmsLate() }

// lateBatch holds back what is not answered in time, as if it had failed, and goes on waiting for
// the answer. It gives the wait up if others may own the lanes by now, or if the destination answers
// what was sent much later: then one of the batch's topics is in trouble, and must not hold up the
// others.
func (r *Relay) lateBatch(b *batch) {
	r.backlog.mu.Lock()
	if b.done {
		r.backlog.mu.Unlock()
		return
	}
	var pause waybill.Event
	o, first := b.gate.outlet, !b.late
	topics := b.topics()
	if b.late = true; first {
		err := waybill.UnavailableError(fmt.Errorf("no answer within %v; it is still waited for", r.cfg.PublishTimeout))
		pause = r.holdBack(b.gate, topics, o.taken() > b.accepted, err)
	}
	mixed := len(topics) > 1 && o.heardSince(b.began.Add(r.cfg.PublishTimeout/2))
	if mixed || r.lanes.remaining() <= 0 {
		b.cut()
	}
	r.backlog.mu.Unlock()
	time.AfterFunc(r.setAsideAfter(), func() { r.lateBatch(b) })
	if first {
		r.observe(r.work, pause)
	}
	r.dispatch()
}
