package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-go/waybill/contract"
)

// keyQueues runs the deliveries of each key one after the other, and different keys concurrently.
type keyQueues struct {
	mu     sync.Mutex
	queues map[string][]*held // present while a goroutine handles the key
	busy   sync.WaitGroup
}

func newKeyQueues() *keyQueues { return &keyQueues{queues: make(map[string][]*held)} }

// add appends d to the queue of key and, if no goroutine handles the queue, starts one, which runs until handle
// returns false, having removed the queue. If there is none and ctx has ended, add does nothing and returns
// false.
func (q *keyQueues) add(ctx context.Context, key string, d *held, handle func(*held) bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting, working := q.queues[key]
	if !working && ctx.Err() != nil {
		return false
	}
	q.queues[key] = append(waiting, d)
	if !working {
		q.busy.Go(func() { q.drain(key, handle) })
	}
	return true
}

func (q *keyQueues) drain(key string, handle func(*held) bool) {
	for {
		d, ok := q.next(key)
		if !ok || !handle(d) {
			return
		}
	}
}

// leave removes a queue, and returns what waits there.
func (q *keyQueues) leave(key string) []*held {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.queues[key]
	delete(q.queues, key)
	return list
}

// next takes the first delivery off a queue; an empty queue is removed.
func (q *keyQueues) next(key string) (*held, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.queues[key]
	if len(list) == 0 {
		delete(q.queues, key)
		return nil, false
	}
	q.queues[key] = list[1:]
	return list[0], true
}

// spawn runs fn in a goroutine that wait waits for, too.
func (q *keyQueues) spawn(fn func()) { q.busy.Go(fn) }

// wait returns when everything that was added has been handled.
func (q *keyQueues) wait() { q.busy.Wait() }

// heldDeliveries are those received and not yet settled. They are extended at the broker
// periodically.
type heldDeliveries struct {
	mu  sync.Mutex
	set map[*held]struct{}
}

// held is a delivery with an identity: a broker's type need not be comparable.
type held struct {
	contract.Delivery
	key  string // the ordering key; "" without one
	most int    // deliveries in a batch with it; 1 if it is to be handled alone
}

// newHeld holds a delivery. A redelivered one may have killed a process: it is not handled in a batch.
func newHeld(d contract.Delivery) *held {
	if d.Redelivered() {
		return &held{Delivery: d, most: 1}
	}
	return &held{Delivery: d, most: maxBatchSize}
}

func newHeldDeliveries() *heldDeliveries {
	return &heldDeliveries{set: make(map[*held]struct{})}
}

func (h *heldDeliveries) add(d contract.Delivery) *held {
	h.mu.Lock()
	defer h.mu.Unlock()
	entry := newHeld(d)
	h.set[entry] = struct{}{}
	return entry
}

func (h *heldDeliveries) remove(d *held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.set, d)
}

func (h *heldDeliveries) list() []*held {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]*held, 0, len(h.set))
	for d := range h.set {
		list = append(list, d)
	}
	return list
}

// extend calls Extend on all held deliveries every ExtendInterval until ctx is done. One that
// cannot be extended is redelivered by the broker; the inbox recognises it then.
func (h *heldDeliveries) extend(ctx context.Context) {
	t := time.NewTicker(contract.ExtendInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		for _, d := range h.list() {
			_ = d.Extend(ctx)
		}
	}
}
