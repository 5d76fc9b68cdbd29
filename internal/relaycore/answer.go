package relaycore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// verdict is what the results of a batch say.
type verdict struct {
	accepted   []*Message
	overtaken  []*Message // accepted although an earlier message of the key was refused
	copies     []*Message // accepted, perhaps twice, the first time longer ago than the broker remembers
	lateness   time.Duration
	unanswered []*Message
	err        error    // of the last one unanswered
	unroutable []string // topics of which nobody would get the messages
	routeErr   error
}

// apply takes in what became of a batch.
func (e Answered) apply(c *Core) {
	b, d := e.Batch, e.Batch.queue.dest
	d.batches = slices.DeleteFunc(d.batches, func(o *Batch) bool { return o == b })
	if d.alone == b {
		d.alone = nil
	}
	if !b.slow {
		b.queue.running--
	}
	if b.slow || b.queue.isolated {
		c.countAway(b, -1)
	}
	v := verdict{accepted: make([]*Message, 0, len(b.Messages))}
	took := c.now - b.sent
	for i, m := range b.Messages {
		var r Result
		if e.Results != nil {
			r = e.Results[i]
		}
		r, copied := d.learn(b, m, r, c.now, e.Window)
		if copied > 0 {
			v.copies, v.lateness = append(v.copies, m), max(v.lateness, copied)
		}
		c.concludeSent(&v, b.lines[i], m, r, took)
	}
	c.reopen(b, v.unanswered)
	c.judge(b, &v, took)
	c.reportAccepted(d, &v, took)
}

// learn keeps what a result says about a message and the destination, and returns the result, made
// permanent if the message has proved to be poison. Of a message that was accepted, copied is the time
// since an earlier attempt that may have arrived, if that is more than the broker remembers.
func (d *dest) learn(b *Batch, m *Message, r Result, now Time, window time.Duration) (_ Result, copied time.Duration) {
	if r.Err == nil {
		d.accepted++
		d.answered = max(d.answered, b.number)
		d.heard = max(d.heard, b.sent)
		if since, unsure := d.unsure(m); unsure && window > 0 && now-since > window {
			copied = now - since
		}
		return r, copied
	}
	if p := d.past[m.Position]; r.Unsure && (p == nil || !p.unsure) {
		p = d.pastOf(m)
		p.unsure, p.since = true, b.sent
	}
	switch {
	case r.Lost && d.blame(m, b.Alone):
		r = poisonResult(r.Err)
	case r.Kind != waybill.Unavailable:
		d.clear(m)
	}
	if r.Lost {
		d.cut = d.sends
	}
	return r, 0
}

// clear drops what speaks against a message.
func (d *dest) clear(m *Message) {
	if p := d.past[m.Position]; p != nil {
		p.inBatch, p.alone = 0, 0
	}
}

func poisonResult(err error) Result {
	err = waybill.PermanentError(waybill.ReasonPoison,
		fmt.Errorf("the connection ended %d times with this message alone on it, while others were accepted: %w", poisonLosses, err))
	return Result{Err: err, Kind: waybill.Permanent, Reason: waybill.ReasonPoison}
}

func permanent(reason waybill.Reason, err error) Result {
	return Result{Err: waybill.PermanentError(reason, err), Kind: waybill.Permanent, Reason: reason}
}

var errExpired = errors.New("the message expired before it was published")

// concludeSent turns the result of one message into an outcome. One of a lane that is not ours any
// more, or not in the same lease, is left to another claim, with all that is behind it.
func (c *Core) concludeSent(v *verdict, l *line, m *Message, r Result, took time.Duration) {
	l.sent--
	switch {
	case !c.lease.owns(m.Lane):
		c.abandon(m)
	case r.Err == nil:
		v.accepted = append(v.accepted, m)
		if l.closed > 0 && l.behind > 0 {
			v.overtaken = append(v.overtaken, m)
		}
		c.conclude(m, r, took)
	case !c.conclude(m, r, took):
		v.unanswered, v.err = append(v.unanswered, m), r.Err
	case r.unroutable() && !slices.Contains(v.unroutable, m.Topic):
		v.unroutable, v.routeErr = append(v.unroutable, m.Topic), r.Err
	}
}

// abandon leaves a message to a later claim: a lane that has come back is read from its beginning, once
// nothing of its earlier epoch is held. What was behind the message was dropped with the lane.
func (c *Core) abandon(m *Message) {
	delete(c.byName[m.Dest].past, m.Position)
	c.read.news = true
	c.held.release(m)
}

// reopen puts messages that were not answered back into their lines, which go on. If something of
// their key waits in the store, which may be an earlier one, they go there, and what is behind them
// goes with them.
func (c *Core) reopen(b *Batch, unanswered []*Message) {
	for _, m := range unanswered {
		l := c.lines[unitOf(m)]
		if b.Alone && m.Key == "" {
			l.insertSecond(m) // a suspect must not keep others from showing that the destination is well
		} else {
			l.insert(m)
		}
		if l.behind > 0 {
			c.waitTheirTurn(l, m.Position)
			c.moveBehind(l)
		}
	}
	for _, l := range b.lines {
		if c.lines[l.unit] == l {
			l.in.place(l)
			c.tidy(l)
		}
	}
}

// waitTheirTurn lets messages after a position that are about to wait for a retry wait behind the earlier
// one, too: if they became due by themselves they could be sent while that waits for longer.
func (c *Core) waitTheirTurn(l *line, position int64) {
	for i := range c.settler.waiting {
		st := &c.settler.waiting[i]
		if st.Outcome == Wait && !st.Alone && !st.Behind && st.Message.Position > position && unitOf(st.Message) == l.unit {
			st.Behind = true
			l.closed--
			c.expect(st.After)
		}
	}
}

// judge pauses what has not answered: the topics concerned, if the destination has accepted others
// meanwhile, else the destination. What answers again goes on.
func (c *Core) judge(b *Batch, v *verdict, took time.Duration) {
	q, d := b.queue, b.queue.dest
	for _, topic := range v.unroutable {
		delay := c.isolate(d, topic).trip(c.now)
		c.report(Report{What: Paused, Dest: d.name, Topic: topic, Delay: delay, Err: v.routeErr})
	}
	if len(v.unanswered) > 0 {
		var topics []string
		for _, m := range v.unanswered {
			if !slices.Contains(topics, m.Topic) {
				topics = append(topics, m.Topic)
			}
		}
		c.pause(q, topics, len(v.unanswered) < len(b.Messages) || d.accepted > b.before, v.err)
		return
	}
	if q.isolated && len(v.unroutable) == 0 {
		if d.topics[q.topic] == q && took < c.slowAfter() {
			c.rejoin(q)
		}
		q.reset()
	}
	if d.main.reset() {
		c.report(Report{What: Resumed, Dest: d.name})
	}
}

// pause pauses what has not answered: topics, if the destination is alive, else all of it.
func (c *Core) pause(q *queue, topics []string, alive bool, err error) {
	d := q.dest
	r := Report{What: Paused, Dest: d.name, Err: err}
	switch {
	case q.isolated:
		r.Topic, r.Delay = q.topic, q.trip(c.now)
	case alive:
		for _, topic := range topics {
			r.Topic, r.Delay = topic, c.isolate(d, topic).trip(c.now)
		}
	default:
		r.Delay = d.main.trip(c.now)
		c.trim(d.main)
	}
	c.report(r)
}

func (c *Core) reportAccepted(d *dest, v *verdict, took time.Duration) {
	c.stats.Published += int64(len(v.accepted))
	if len(v.accepted) > 0 {
		c.report(Report{What: PublishedNow, Dest: d.name, Messages: v.accepted, Took: took})
	}
	if len(v.overtaken) > 0 {
		c.report(Report{What: Overtaken, Dest: d.name, Messages: v.overtaken})
	}
	if len(v.copies) > 0 {
		c.report(Report{What: DedupExpired, Dest: d.name, Messages: v.copies, Delay: v.lateness})
	}
}
