package relay

import (
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
)

// takeIn gives each claimed message its place: in the backlog if it is to be sent, else
// among the outcomes to be written down.
func (r *Relay) takeIn(claims []Claim) {
	now := time.Now()
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	for i := range claims {
		c := &claims[i]
		if !r.lanes.readOn(c.Lane) {
			continue // another claim reads it from its beginning
		}
		if c.ExpiresIn > 0 {
			c.expiresAt = now.Add(c.ExpiresIn)
		}
		r.backlog.hold(c)
		if err := unfit(c); err != nil {
			r.conclude(result{claim: c, err: err})
		} else if c.DelayFor > 0 {
			r.settleLater(Settlement{Claim: c, Outcome: Schedule})
		} else if o := r.route(c); o != nil {
			r.place(o, c)
		}
	}
}

// unfit returns why a message can't be published at all, or nil.
func unfit(c *Claim) error {
	if c.Malformed != nil {
		return waybill.PermanentError(waybill.ReasonMalformed, fmt.Errorf("row does not decode: %w", c.Malformed))
	}
	if c.expired() {
		return waybill.PermanentError(waybill.ReasonExpired, errors.New("the message expired before it was published"))
	}
	return nil
}

// expired reports whether the time of the message has passed, also while it was held.
func (c *Claim) expired() bool {
	return c.Expired || !c.expiresAt.IsZero() && !time.Now().Before(c.expiresAt)
}

// route decides where a message goes. It returns nil if that was an outcome to write down.
func (r *Relay) route(c *Claim) *outlet {
	if !c.Waiting {
		switch names := r.mainFor(&c.Message); len(names) {
		case 0:
			r.conclude(result{claim: c, err: waybill.PermanentError(waybill.ReasonUnroutable, errors.New("no destination matches the message"))})
			return nil
		case 1:
			c.Destination = names[0]
		default:
			r.settleLater(Settlement{Claim: c, Outcome: Fanout, Destinations: names})
			return nil
		}
	}
	o := r.outlets[c.Destination]
	if o == nil {
		r.conclude(result{claim: c, err: waybill.RetryAfter(time.Minute, fmt.Errorf("destination %q is not configured", c.Destination))})
		return nil
	}
	if _, err := o.matches(&c.Message); err != nil {
		r.conclude(result{claim: c, err: err})
		return nil
	}
	return o
}

// mainFor returns the destinations that match a message.
func (r *Relay) mainFor(m *waybill.Message) (names []string) {
	if r.undivided != nil {
		return r.undivided
	}
	for _, o := range r.main {
		if yes, _ := o.matches(m); yes {
			names = append(names, o.Name)
		}
	}
	return names
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

// place adds a message to the line of its unit, or sends it to the waiting rows: behind an
// earlier one of its key that waits there, or because it has no room in memory now.
func (r *Relay) place(o *outlet, c *Claim) {
	l := r.backlog.line(unitOf(c), o.main)
	l.enter(o.gateFor(l.topic))
	switch {
	case c.Blocked || l.waits > 0:
		r.moveBehind(c)
	case r.crowded(l.gate, c) && l.key == "":
		r.moveAway(c, l.gate, destinationFull)
	case r.crowded(l.gate, c) && !l.underWay():
		l.append(c)
		r.moveLineAway(l, 0, destinationFull)
	default:
		l.append(c)
	}
	r.backlog.tidy(l)
}

// moveBehind sends a message to the waiting rows, behind an earlier one of its key.
func (r *Relay) moveBehind(c *Claim) {
	r.backlog.lighten(c)
	r.settleLater(behind(c))
}

const destinationFull = "the destination takes no more for now"

// moveAway sends a message to the waiting rows for as long as its gate wants it to stay away.
// It must be the first of its key, with nothing of the key under way: whoever takes over the
// lane takes what waits for the earlier messages.
func (r *Relay) moveAway(c *Claim, g *gate, why string) {
	r.backlog.lighten(c)
	r.settleLater(later(c, g.away(c.Message.Tenant), why))
}

// moveLineAway does that with the messages of a line until its gate has so many left. With a
// key, the first takes the others along.
func (r *Relay) moveLineAway(l *line, left int, why string) {
	for len(l.queue) > 0 && l.gate.waiting.total > left {
		r.moveAway(l.take(1)[0], l.gate, why)
	}
}

// crowded reports whether a message would take room in memory that others need.
func (r *Relay) crowded(g *gate, c *Claim) bool {
	switch {
	case len(r.outlets) > 1 && g.paused() > 0:
		return true
	case g.outlet.pace.rate > 0: // tenants have room of their own
		room := max(r.cfg.BatchSize, int(g.outlet.pace.rate))
		return g.waiting.tenants[c.Message.Tenant] >= room/(1+len(g.waiting.tenants))
	}
	return g.congested && g.waiting.total >= 2*r.cfg.BatchSize
}
