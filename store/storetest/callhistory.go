package storetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// callHistory records calls and their answers. Time is a number that rises with each call and each answer.
type callHistory struct {
	time  atomic.Int64
	mu    sync.Mutex
	calls map[string][]porcupine.Operation // by what they are about
}

func newCallHistory() *callHistory {
	return &callHistory{calls: make(map[string][]porcupine.Operation)}
}

// add makes a call and records it. A caller that abandons its call has no answer: the call may take effect at
// any later time. call returns the input and the answer.
func (h *callHistory) add(caller int, about string, call func() (input, output any, answered bool)) {
	op := porcupine.Operation{ClientId: caller, Call: h.time.Add(1), Return: math.MaxInt64}
	var answered bool
	if op.Input, op.Output, answered = call(); answered {
		op.Return = h.time.Add(1)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[about] = append(h.calls[about], op)
}

// inOneOrder returns an error unless there is an order of the calls, each of which takes effect between its beginning and its
// answer, in which a single caller would have got the same answers: whether the calls are linearizable (Herlihy
// and Wing, Linearizability: A Correctness Condition for Concurrent Objects, 1990).
func (h *callHistory) inOneOrder(m porcupine.Model) error {
	for about, calls := range h.calls {
		if porcupine.CheckOperations(m, calls) {
			continue
		}
		var text strings.Builder
		for _, op := range calls {
			fmt.Fprintf(&text, "\ncaller %d, %d to %d: %v is answered %v", op.ClientId, op.Call, op.Return, op.Input, op.Output)
		}
		return fmt.Errorf("in no order are the answers about %s right:%s", about, text.String())
	}
	return nil
}

// callContext returns the context of a call: now and then one that ends before most are answered.
func callContext(ctx context.Context, rng *rand.Rand) (_ context.Context, cancel context.CancelFunc, short bool) {
	if rng.IntN(12) > 0 {
		return ctx, func() {}, false
	}
	ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(3000))*time.Microsecond)
	return ctx, cancel, true
}
