package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// ledger records what the broker has stored and refused. It checks the promises that can be checked
// where a message is stored or settled.
type ledger struct {
	accepted map[string]int // copies, by copyOf
	failures map[string]int // refusals that count as attempts, by the same
	lives    map[string]int // copies of one life, by lifeOf
	retry    waybill.RetryPolicy
	order    relaycore.Order
	topics   map[string]relaycore.Order // that have an order of their own
	unkept   bool                       // there are no dead letters
	several  bool                       // destinations, so that a message may be dead-lettered before it has one
	follows  bool                       // messages become due for the follower in their order: one destination sends them, one by one
}

func newLedger(cfg *relaycore.Config) *ledger {
	return &ledger{
		retry: cfg.Retry, order: cfg.Order, topics: cfg.TopicOrder, unkept: cfg.NoDeadLetters,
		several:  len(cfg.Dests) > 1,
		follows:  len(cfg.Dests) == 1 && cfg.Strict,
		accepted: make(map[string]int), failures: make(map[string]int), lives: make(map[string]int),
	}
}

// follower is the destination that receives what was published.
const follower = "f"

// rowOf returns the row that a message was claimed from, as it was then.
func rowOf(m *relaycore.Message) *row { return m.Tag.(*row) }

// copyOf names a message at a destination.
func copyOf(m *relaycore.Message) string { return rowOf(m).id + "@" + m.Dest }

// lifeOf names one life of a message at a destination.
func lifeOf(m *relaycore.Message) string { return lifeName(copyOf(m), m.Life) }

func lifeName(copied string, life int) string { return fmt.Sprint(copied, "#r", life) }

// orderOf returns the order that a message is in: one without a key has none.
func (l *ledger) orderOf(m *relaycore.Message) relaycore.Order {
	if m.Key == "" {
		return relaycore.Block
	}
	if o, own := l.topics[m.Topic]; own {
		return o
	}
	return l.order
}

// store records that the broker has stored message i of a batch. The first copy of a message must not be
// stored while an earlier message of its key is neither stored nor resolved, unless that was sent with
// it, before it was refused. One that is dead-lettered before it has a destination blocks nothing.
func (l *ledger) store(s *store, b *relaycore.Batch, i int, now relaycore.Time) error {
	m := b.Messages[i]
	r, name := rowOf(m), copyOf(m)
	l.accepted[name]++
	l.lives[lifeOf(m)]++
	order := l.orderOf(m)
	if r.key == "" || r.alone || order == relaycore.Skip || l.accepted[name] > 1 || m.Dest == follower && !l.follows {
		return nil
	}
	holds := func(o *row) bool {
		return o.position < m.Position && o.passed < m.Position && o.topic == r.topic && o.key == r.key && !o.alone && o.life == 0 && !o.requeued && o.deliver == 0 &&
			l.accepted[o.id+"@"+m.Dest] == 0 && !inBatch(b, o.position)
	}
	for _, o := range s.rows {
		if !o.waits && l.several && (o.odd == malformed || o.expires > 0 && o.expires <= now) {
			continue
		}
		if (o.dest == m.Dest || !o.waits && o.goesTo(m.Dest)) && holds(o) {
			return fmt.Errorf("%s is stored before %s, an earlier message of its key", name, o.id)
		}
	}
	for _, o := range s.dead {
		if order == relaycore.Park && !o.resolved && o.dest == m.Dest && holds(o) {
			return fmt.Errorf("%s is stored although the dead letter of %s parks its key", name, o.id)
		}
	}
	return nil
}

// inBatch reports whether a batch has the message at a position.
func inBatch(b *relaycore.Batch, position int64) bool {
	return slices.ContainsFunc(b.Messages, func(m *relaycore.Message) bool { return m.Position == position })
}

// unsent reports whether a message was dead-lettered without being sent.
func unsent(st *relaycore.Settlement) bool {
	return st.Reason == waybill.ReasonExpired || rowOf(st.Message).odd == malformed || rowOf(st.Message).odd == unrouted
}

// settle checks outcomes: nothing is published without a confirm, no attempt is counted that did not fail,
// the limit of attempts is kept, and what waits for another attempt, or is dead-lettered, does so as the
// policies say.
func (l *ledger) settle(list []relaycore.Settlement) error {
	for i := range list {
		st := &list[i]
		name, order := copyOf(st.Message), l.orderOf(st.Message)
		retries := max(0, l.retry.MaxRetries)
		gone := st.Outcome == relaycore.DeadLetter || st.Outcome == relaycore.FailedLetter
		switch {
		case st.Outcome == relaycore.Published && l.lives[lifeOf(st.Message)] == 0:
			return fmt.Errorf("%s is settled as published, and was never stored in life %d", name, st.Message.Life)
		case st.Attempts > l.failures[name] && !unsent(st):
			return fmt.Errorf("%s counts %d attempts, and has failed %d times", name, st.Attempts, l.failures[name])
		case st.Outcome == relaycore.Wait && st.Attempts > retries:
			return fmt.Errorf("%s is tried again after %d failures, the limit is %d", name, st.Attempts, retries)
		case st.Reason == waybill.ReasonExhausted && st.Attempts <= retries:
			return fmt.Errorf("%s is dead-lettered after %d failures, before it was tried %d times", name, st.Attempts, retries)
		case st.Reason == waybill.ReasonUnroutable && st.Attempts <= retries && !unsent(st):
			return fmt.Errorf("%s is dead-lettered as unroutable after %d failures, before it was tried %d times", name, st.Attempts, retries)
		case gone && (st.Outcome == relaycore.FailedLetter) != l.unkept:
			return fmt.Errorf("%s is dead-lettered with outcome %d, and dead letters are off: %v", name, st.Outcome, l.unkept)
		case gone && st.Park != (order == relaycore.Park):
			return fmt.Errorf("%s parks its key: %v, under order %d", name, st.Park, order)
		}
	}
	return nil
}

// counts reports whether a result counts as a failed attempt.
func counts(r relaycore.Result) bool {
	return r.Err != nil && !r.Swallowed && r.Kind != waybill.Unavailable && r.Kind != waybill.Conflict
}

// answered checks outcomes against the latest results of sending the messages.
func (l *ledger) answered(list []relaycore.Settlement, results map[*relaycore.Message]relaycore.Result) error {
	for i := range list {
		st := &list[i]
		r, sent := results[st.Message]
		life := st.Message.Life
		if sent && r.Swallowed {
			life++
		}
		if st.Life != life && st.Outcome == relaycore.Wait {
			return fmt.Errorf("%s waits for life %d, want %d", copyOf(st.Message), st.Life, life)
		}
		if err := reasonOf(st, r, sent); err != nil {
			return err
		}
		if !sent || st.Reason == waybill.ReasonPoison || st.Reason == waybill.ReasonExpired {
			continue
		}
		want := st.Message.Attempts
		if counts(r) {
			want++
		}
		if st.Attempts != want {
			return fmt.Errorf("%s counts %d attempts after %v, want %d", copyOf(st.Message), st.Attempts, r.Kind, want)
		}
		if final := r.Kind == waybill.Permanent && r.Reason != waybill.ReasonUnroutable; final && st.Outcome == relaycore.Wait {
			return fmt.Errorf("%s was refused for good, and is no dead letter", copyOf(st.Message))
		}
		if r.Swallowed && st.Outcome != relaycore.Wait {
			return fmt.Errorf("%s was swallowed as a copy, and does not wait for another life", copyOf(st.Message))
		}
		if r.Err == nil && st.Outcome != relaycore.Published {
			return fmt.Errorf("%s was accepted, and is not published", copyOf(st.Message))
		}
		if err := l.waits(st, r); err != nil {
			return err
		}
	}
	return nil
}

// reasonOf checks why a message is dead-lettered. The monitor checks poison.
func reasonOf(st *relaycore.Settlement, r relaycore.Result, sent bool) error {
	row, want := rowOf(st.Message), waybill.ReasonExhausted
	switch {
	case st.Outcome != relaycore.DeadLetter && st.Outcome != relaycore.FailedLetter, st.Reason == waybill.ReasonPoison:
		return nil
	case row.odd == malformed:
		want = waybill.ReasonMalformed
	case st.Reason == waybill.ReasonExpired && row.expires > 0:
		return nil
	case row.odd == unrouted && !sent:
		want = waybill.ReasonUnroutable
	case sent && r.Kind == waybill.Permanent:
		want = r.Reason
	}
	if st.Reason != want {
		return fmt.Errorf("%s is dead-lettered with reason %q, want %q", copyOf(st.Message), st.Reason, want)
	}
	return nil
}

// waits checks how a message that was refused waits for another attempt: with the delay of the policy, and
// outside of its key's order where that is skipped.
func (l *ledger) waits(st *relaycore.Settlement, r relaycore.Result) error {
	if st.Outcome != relaycore.Wait || st.Behind || r.Err == nil || r.Swallowed {
		return nil
	}
	want := r.After
	policy := l.retry
	policy.DisableJitter = true
	switch {
	case r.Kind == waybill.Conflict:
		want = backoff.Delay(policy, 1)
	case r.Kind != waybill.Unavailable:
		want = backoff.Delay(policy, st.Attempts)
	case r.After == 0:
		return nil // it was deferred
	}
	if spread := want / 4; st.After < want-spread || st.After > want+spread {
		return fmt.Errorf("%s waits for %v, want about %v", copyOf(st.Message), st.After.Round(time.Millisecond), want)
	}
	if skips := l.orderOf(st.Message) == relaycore.Skip; st.Alone != skips {
		return fmt.Errorf("%s leaves the order of its key: %v, want %v", copyOf(st.Message), st.Alone, skips)
	}
	return nil
}

// end checks that every message was stored by each destination that it goes to, or is a dead letter.
func (l *ledger) end(s *store, messages int, routes func(id string) []string) error {
	for n := range messages {
		id := fmt.Sprint("m", n)
		dests := routes(id)
		for _, d := range dests {
			dead := slices.ContainsFunc(s.dead, func(r *row) bool { return r.id == id && (r.dest == d || r.dest == "") })
			at := l.accepted[id+"@"+d] > 0
			if d == follower && s.published[id+"@"+dests[0]] == 0 {
				continue
			}
			if !at && !dead {
				return fmt.Errorf("%s is lost: neither stored by destination %q nor a dead letter", id, d)
			}
		}
	}
	return nil
}
