package relaycore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// verdict summarises the results of a batch.
type verdict struct {
	accepted   []*Message
	overtaken  []*Message // accepted although an earlier message of the key was refused
	copies     []*Message // accepted, perhaps twice, the first time longer ago than the broker's deduplication window
	lateness   time.Duration
	unanswered []*Message
	err        error      // of the last one unanswered
	unroutable []*Message // no queue would get them
	routeErr   error      // of the last one unroutable
}

// apply processes the results of a batch.
func (e Answered) apply(c *Core) {
	b, d := e.Batch, e.Batch.queue.dest
	d.batches = slices.DeleteFunc(d.batches, func(o *Batch) bool { return o == b })
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
		c.concludeSent(&v, b, m, r, took)
	}
	for _, m := range b.Messages {
		if l := m.line; c.lines[l.unit] == l {
			l.in.place(l)
			c.tidy(l)
		}
	}
	c.fit(b, &v, took)
	c.judge(b, &v, took)
	c.reportAccepted(d, &v, took)
}

// learn records what a result says about a message and the destination, and returns the result, made
// permanent if the message has proved to be poison. For an accepted message, copied is the time since
// an earlier attempt that may have arrived, if that exceeds the broker's deduplication window.
func (d *dest) learn(b *Batch, m *Message, r Result, now Time, window time.Duration) (_ Result, copied time.Duration) {
	if r.Err == nil {
		d.accepted++
		d.answered = max(d.answered, b.number)
		d.heard = max(d.heard, b.sent)
		if p := d.recall(m); p.unsure && window > 0 && now-p.since > window {
			copied = now - p.since
		}
		return r, copied
	}
	if r.Unsure && !d.recall(m).unsure {
		p := d.pastOf(m)
		p.unsure, p.since = true, b.sent
	}
	blamed := r.Lost && d.blame(m, b.Alone)
	if r.Lost {
		d.cut = d.sends
	}
	switch {
	case blamed:
		r = poisonResult(r.Err)
	case r.Kind != waybill.Unavailable && d.recall(m).inBatch > 0: // it is no longer suspect
		p := d.pastOf(m)
		p.inBatch, p.alone = 0, 0
	}
	return r, 0
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

// concludeSent turns the result of one message into an outcome. One of a lane that is no longer
// ours, or not in the same lease, is left to another claim, with everything behind it.
func (c *Core) concludeSent(v *verdict, b *Batch, m *Message, r Result, took time.Duration) {
	l := m.line
	l.sent--
	switch {
	case !c.lease.owns(m.Lane): // once nothing of its earlier epoch is held, the lane is read from its beginning
		delete(b.queue.dest.past, m.Position)
		c.read.news = true
		c.held.release(m)
	case r.Err == nil:
		v.accepted = append(v.accepted, m)
		if l.closed > 0 && l.behind > 0 {
			v.overtaken = append(v.overtaken, m)
		}
		c.conclude(m, r, took)
	case !c.conclude(m, r, took):
		v.unanswered, v.err = append(v.unanswered, m), r.Err
		c.putBack(m, b.Alone)
	case r.unroutable():
		v.unroutable, v.routeErr = append(v.unroutable, m), r.Err
	}
}

// putBack returns an unanswered message to its line, which continues. If a message of its key waits in
// the store, which may be an earlier one, it is moved there with everything behind it.
func (c *Core) putBack(m *Message, alone bool) {
	l := m.line
	if alone && m.Key == "" {
		l.insertAt(min(1, len(l.waiting)), m) // a suspect must not keep others from showing that the destination is healthy
	} else {
		l.insert(m)
	}
	if l.behind > 0 {
		c.moveBehind(l)
	}
}

// judge pauses what has not answered: the topics concerned, if the destination has accepted others
// in the meantime, else the destination. What answers again is resumed.
func (c *Core) judge(b *Batch, v *verdict, took time.Duration) {
	q, d := b.queue, b.queue.dest
	c.pauseTopics(d, v.unroutable, v.routeErr)
	switch {
	case len(v.unanswered) > 0 && (len(v.unanswered) < len(b.Messages) || d.accepted > b.before):
		c.pauseTopics(d, v.unanswered, v.err)
	case len(v.unanswered) > 0:
		c.pause(q, v.unanswered, v.err)
	default:
		if q.isolated() && len(v.unroutable) == 0 {
			if d.queueFor(q.topic) == q && took < c.slowAfter() {
				c.rejoin(q)
			}
			q.succeed(c.now)
		}
		if d.main.succeed(c.now) {
			c.report(Report{What: Resumed, Dest: d.Name})
		}
	}
}

// pause pauses the queue that messages were sent from: their topic, if it is isolated, else the destination.
func (c *Core) pause(q *queue, messages []*Message, err error) {
	if q.isolated() {
		c.pauseTopics(q.dest, messages, err)
		return
	}
	c.report(Report{What: Paused, Dest: q.dest.Name, Delay: q.trip(c.now), Err: err})
	c.trim(q)
}

// pauseTopics isolates the topics of messages, and pauses each.
func (c *Core) pauseTopics(d *dest, messages []*Message, err error) {
	for _, topic := range topicsOf(messages) {
		c.report(Report{What: Paused, Dest: d.Name, Topic: topic, Delay: c.isolate(d, topic).trip(c.now), Err: err})
	}
}

func (c *Core) reportAccepted(d *dest, v *verdict, took time.Duration) {
	c.stats.Published += int64(len(v.accepted))
	if len(v.accepted) > 0 {
		c.report(Report{What: PublishedNow, Dest: d.Name, Messages: v.accepted, Took: took})
	}
	if len(v.overtaken) > 0 {
		c.report(Report{What: Overtaken, Dest: d.Name, Messages: v.overtaken})
	}
	if len(v.copies) > 0 {
		c.report(Report{What: DedupExpired, Dest: d.Name, Messages: v.copies, Delay: v.lateness})
	}
}
