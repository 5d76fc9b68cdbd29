package kafkabroker

import (
	"errors"
	"slices"
	"sync"

	"github.com/waybill-go/waybill/relay"
)

// errPending stands in results for what is not known yet.
var errPending = errors.New("kafkabroker: no answer yet")

// batch collects the results of one Send. It is safe for concurrent use.
type batch struct {
	msgs []relay.Outgoing
	done chan struct{} // closed when all results are known

	mu      sync.Mutex
	results []error
	left    int // results that are not known
}

func newBatch(msgs []relay.Outgoing) *batch {
	b := &batch{msgs: msgs, done: make(chan struct{}), results: make([]error, len(msgs)), left: len(msgs)}
	for i := range b.results {
		b.results[i] = errPending
	}
	if b.left == 0 {
		close(b.done)
	}
	return b
}

// resolve sets the result of message i unless it is known.
func (b *batch) resolve(i int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(i, err)
}

func (b *batch) set(i int, err error) {
	if b.results[i] != errPending {
		return
	}
	b.results[i] = err
	if b.left--; b.left == 0 {
		close(b.done)
	}
}

// resolveAll sets all results that are not known.
func (b *batch) resolveAll(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.results {
		b.set(i, err)
	}
}

// known returns a copy of the results.
func (b *batch) known() []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.results)
}
