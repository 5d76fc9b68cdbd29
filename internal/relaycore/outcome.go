package relaycore

import (
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/backoff"
)

// jitterShare is the jitter of delays, as in [waybill.RetryPolicy].
const jitterShare = 0.2

// delay returns how long a message waits after a number of failed attempts.
func (c *Core) delay(failed int) time.Duration {
	exact := c.cfg.Retry
	exact.DisableJitter = true
	d := backoff.Delay(exact, failed)
	if c.cfg.Retry.DisableJitter {
		return d
	}
	return time.Duration(float64(d) * (1 - jitterShare + float64(2*jitterShare*c.random())))
}

// unroutable reports whether the destination has answered that the message is unroutable. The cause
// is more often the topology, in which the consumer is not declared yet, than the message.
func (r Result) unroutable() bool {
	return r.Kind == waybill.Permanent && r.Reason == waybill.ReasonUnroutable && !r.Final
}

// conclude converts a result into an outcome to be stored. It returns false if the message keeps
// its place because the destination is unavailable.
func (c *Core) conclude(m *Message, r Result, took time.Duration) bool {
	st := Settlement{Message: m, Attempts: m.Attempts, Life: m.Life, Took: took, Err: r.Err}
	switch {
	case r.Err == nil:
		st.Outcome, st.To = Published, r.Followers
	case r.Swallowed:
		st.Life++
		c.wait(&st, 0)
	case r.Kind == waybill.Unavailable && r.After == 0:
		return false
	case r.Kind == waybill.Unavailable:
		c.wait(&st, r.After)
	case r.Kind == waybill.Conflict:
		c.wait(&st, c.delay(1))
	default:
		st.Attempts++
		c.concludeFailure(&st, r)
	}
	c.settleLater(st)
	if st.Behind {
		c.expect(st.After)
		c.moveBehind(m.line)
	}
	return true
}

// concludeFailure decides whether a failed message is retried.
func (c *Core) concludeFailure(st *Settlement, r Result) {
	exhausted := backoff.Exhausted(c.cfg.Retry, st.Attempts)
	switch {
	case r.Kind == waybill.Permanent && !r.unroutable():
		c.giveUp(st, r.Reason)
	case exhausted && r.unroutable():
		c.giveUp(st, waybill.ReasonUnroutable)
	case exhausted:
		c.giveUp(st, waybill.ReasonExhausted)
	default:
		c.wait(st, c.delay(st.Attempts))
	}
}

// wait defers a message until its next attempt. If an earlier one of its key was not answered, both wait in
// the store in order: with its own due time the later one could be sent while the earlier one waits.
func (c *Core) wait(st *Settlement, after time.Duration) {
	m := st.Message
	st.Outcome, st.After = Wait, after
	st.Alone = c.orderOf(m) == Skip
	st.Behind = m.Key != "" && !st.Alone && m.line != nil && m.line.holdsBefore(m)
}

func (c *Core) giveUp(st *Settlement, reason waybill.Reason) {
	st.Outcome, st.Reason = DeadLetter, reason
	if c.cfg.NoDeadLetters {
		st.Outcome = FailedLetter
	}
	st.Park = c.orderOf(st.Message) == Park
}

// orderOf returns the order policy for a message. One without a key has no order: it waits alone,
// and parks nothing.
func (c *Core) orderOf(m *Message) Order {
	if m.Key == "" {
		return Block
	}
	if o, ok := c.cfg.TopicOrder[m.Topic]; ok {
		return o
	}
	return c.cfg.Order
}

// closes returns the units from which nothing may be sent before the outcome is stored.
func (st *Settlement) closes() (units []unit) {
	m := st.Message
	switch {
	case m.Key == "", st.Alone, st.Outcome == Published, st.Outcome == Schedule:
	case st.Outcome == Fanout:
		for _, d := range st.To {
			units = append(units, unit{d, m.Topic, m.Key, ""})
		}
	default:
		units = []unit{unitOf(m)}
	}
	return units
}

// blocks reports whether later messages of those units follow this one to the waiting rows.
func (st *Settlement) blocks() bool {
	return st.Message.Key != "" && (st.Outcome == Wait && !st.Alone || st.Outcome == Fanout || st.Park)
}

// settleLater keeps an outcome until it is stored, and closes the lines concerned.
func (c *Core) settleLater(st Settlement) {
	if st.Outcome == Wait {
		c.held.lighten(st.Message)
	}
	c.settler.waiting = append(c.settler.waiting, st)
	for _, u := range st.closes() {
		d := c.byName[u.dest]
		if d == nil {
			continue // it waits for a configuration with its destination
		}
		l := c.line(u, d)
		if st.blocks() {
			l.behind++
		}
		if !st.Behind { // else the message before it may be sent
			l.closed++
			if st.blocks() {
				c.moveBehind(l)
			}
		}
		l.in.place(l)
	}
}

// moveBehind moves all messages of a line to the waiting rows, behind an earlier one of its key.
func (c *Core) moveBehind(l *line) {
	for _, m := range l.remove(func(*Message) bool { return true }) {
		c.settleBehind(m)
	}
}

func (c *Core) settleBehind(m *Message) {
	c.settleLater(Settlement{Message: m, Outcome: Wait, Behind: true, Attempts: m.Attempts, Life: m.Life})
}

// openAfter opens the lines that an outcome had closed. Lines behind a waiting message open only
// when no claim is running that may not have seen it.
func (c *Core) openAfter(st *Settlement) {
	for _, u := range st.closes() {
		l := c.lines[u]
		if l == nil {
			continue
		}
		if !st.Behind {
			l.closed--
		}
		switch {
		case !st.blocks():
		case c.read.phase == claiming:
			c.read.reopen = append(c.read.reopen, l)
		default:
			l.behind--
		}
		l.in.place(l)
		c.tidy(l)
	}
}
