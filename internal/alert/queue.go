package alert

import (
	"slices"
	"time"
)

const (
	// mostAtOnce is how many alerts one delivery has at most.
	mostAtOnce = 20

	backoffBase = 5 * time.Second
	backoffMax  = 5 * time.Minute
)

// Queue is what one channel has still to deliver. An alert stays until it is delivered.
type Queue struct {
	Alerts    []Alert   `json:"alerts"`              // in their order
	Attempted int       `json:"attempted"`           // how many of the first were in the last attempt, which failed; 0 if none did
	Failures  int       `json:"failures"`            // in a row
	NotBefore time.Time `json:"not_before,omitzero"` // when to try again
}

// enqueue returns the queues with alerts at the end of each.
func enqueue(queues map[string]Queue, alerts []Alert) map[string]Queue {
	extended := make(map[string]Queue, len(queues))
	for name, q := range queues {
		q.Alerts = slices.Concat(q.Alerts, alerts)
		extended[name] = q
	}
	return extended
}

// Due returns the alerts to deliver now, together: none if there are none, or if it is too early after a
// failure. The same ones are due until they are delivered, even if others have come after them.
func (q Queue) Due(now time.Time) []Alert {
	if now.Before(q.NotBefore) {
		return nil
	}
	return q.Alerts[:q.batch()]
}

func (q Queue) batch() int {
	if q.Attempted > 0 {
		return q.Attempted
	}
	return min(len(q.Alerts), mostAtOnce)
}

// Delivered returns the queue without the alerts that were due.
func (q Queue) Delivered() Queue { return Queue{Alerts: slices.Clone(q.Alerts[q.batch():])} }

// Failed returns the queue after a delivery that failed: the same alerts are due again after a delay, which
// doubles with each failure from 5 s to 5 min.
func (q Queue) Failed(now time.Time) Queue {
	q.Attempted = q.batch()
	q.NotBefore = now.Add(min(backoffBase<<min(q.Failures, 10), backoffMax))
	q.Failures++
	return q
}

// Waiting reports how many alerts are not delivered yet, in all queues, and when the first of the channels may
// be tried again; the zero time if there is nothing to deliver.
func (s State) Waiting() (count int, next time.Time) {
	for _, q := range s.Queues {
		if len(q.Alerts) == 0 {
			continue
		}
		if count == 0 || q.NotBefore.Before(next) {
			next = q.NotBefore
		}
		count += len(q.Alerts)
	}
	return count, next
}

// With returns the state with another queue of a channel.
func (s State) With(channel string, q Queue) State {
	queues := enqueue(s.Queues, nil)
	queues[channel] = q
	return State{Findings: s.Findings, Queues: queues}
}
