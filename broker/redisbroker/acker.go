package redisbroker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxAcks is how many acknowledgements one pipeline carries.
	maxAcks = 1000

	commandTimeout = 5 * time.Second
)

// ack is one acknowledgement that is to be sent.
type ack struct {
	reader *reader
	id     string
}

// acker sends acknowledgements, in pipelines one after the other that each take everything that has accumulated
// meanwhile, and repeats them until Redis has answered: to acknowledge twice changes nothing. Unanswered ones go
// behind unsent ones, because another node of a Cluster may answer while one is down.
type acker struct {
	broker *Broker

	mu      sync.Mutex
	idle    sync.Cond // queue is empty and nothing is being sent
	queue   []ack
	sending bool
}

func newAcker(b *Broker) *acker {
	a := &acker{broker: b}
	a.idle.L = &a.mu
	return a
}

func (a *acker) add(r *reader, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = append(a.queue, ack{r, id})
	if !a.sending {
		a.sending = true
		go a.send()
	}
}

// send empties the queue. Once the broker is closed it stops at the first failure.
func (a *acker) send() {
	for failures := 0; ; {
		list := a.next()
		if len(list) == 0 {
			return
		}
		left := a.acknowledge(list)
		if len(left) == 0 {
			failures = 0
			continue
		}
		failures++
		a.again(left)
		select {
		case <-a.broker.done:
			a.giveUp()
			return
		case <-time.After(backoff(failures)):
		}
	}
}

func (a *acker) next() []ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.queue), maxAcks)
	list := a.queue[:n:n]
	a.queue = a.queue[n:]
	if n == 0 {
		a.end()
	}
	return list
}

// again requeues what could not be sent.
func (a *acker) again(list []ack) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = append(a.queue, list...)
}

func (a *acker) giveUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end()
}

func (a *acker) end() {
	a.queue, a.sending = nil, false
	a.idle.Broadcast()
}

// acknowledge sends one XACK for each group, and returns the unanswered ones.
func (a *acker) acknowledge(list []ack) (left []ack) {
	ids := make(map[*reader][]string)
	for _, one := range list {
		ids[one.reader] = append(ids[one.reader], one.id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	sent := make(map[*reader]*redis.IntCmd)
	_, failure := a.broker.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for r, list := range ids {
			sent[r] = pipe.XAck(ctx, r.stream, r.group, list...)
		}
		return nil
	})
	answered := make(map[*reader]bool)
	for r, cmd := range sent {
		answered[r] = cmd.Err() == nil
	}
	if failure != nil && !slices.Contains(slices.Collect(maps.Values(answered)), false) {
		return list // no connection was made; the commands do not report that
	}
	for r, yes := range answered {
		if yes {
			r.progressed()
		}
	}
	return slices.DeleteFunc(list, func(one ack) bool { return answered[one.reader] })
}

// drain waits until everything is sent or abandoned, or the time is over.
func (a *acker) drain(within time.Duration) {
	late := false
	timer := time.AfterFunc(within, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		late = true
		a.idle.Broadcast()
	})
	defer timer.Stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.sending && !late {
		a.idle.Wait()
	}
}
