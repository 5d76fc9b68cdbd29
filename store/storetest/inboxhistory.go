package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/anishathalye/porcupine"

	"github.com/waybill-go/waybill/inbox"
)

const (
	deliveryCallers = 6
	deliveryCalls   = 16 // of each caller
	deliveryMessage = 4  // calls of each caller with a message, before the next
)

// delivery is a message that is processed, or a read of its effects.
type delivery struct{ asks, fails bool }

func (d delivery) String() string {
	switch {
	case d.asks:
		return "effects"
	case d.fails:
		return "a handler that fails"
	}
	return "a handler"
}

// deliveryTold is the answer; zero if there was none.
type deliveryTold struct {
	outcome string // of the inbox, or handlerFailed
	effects int
}

const handlerFailed = "the handler ran and failed"

// inboxContract has the number of effects of the message as its state.
var inboxContract = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		effects, d, told := state.(int), input.(delivery), output.(deliveryTold)
		if d.asks {
			return told.effects == effects, effects
		}
		switch told.outcome {
		case handlerFailed:
			return effects == 0, effects
		case inbox.Duplicate.String():
			return effects == 1, effects
		case inbox.Processed.String():
			return effects == 0, 1
		case "":
			if d.fails {
				return true, effects
			}
			return true, 1
		}
		return false, effects
	},
}

var errHandler = errors.New("the handler fails")

// processHistory makes callers process the same messages concurrently, with handlers of which some fail, and
// abandon calls now and then.
func processHistory[Tx any](e *env[Tx]) {
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	h := newCallHistory()
	name := func(i int) string { return fmt.Sprintf("message %d", i/deliveryMessage) }
	together(deliveryCallers, func(caller int) {
		rng := rand.New(rand.NewPCG(seed, uint64(caller)))
		for i := range deliveryCalls {
			d := delivery{fails: rng.IntN(2) == 0}
			ctx, cancel, short := callContext(e.ctx, rng)
			h.add(caller, name(i), func() (any, any, bool) {
				told, err := e.deliver(ctx, name(i), d)
				if err != nil && !short {
					e.Errorf("ProcessOnce: %v", err)
				}
				return d, told, err == nil
			})
			cancel()
		}
	})
	for i := 0; i < deliveryCalls; i += deliveryMessage {
		h.add(deliveryCallers, name(i), func() (any, any, bool) {
			return delivery{asks: true}, deliveryTold{effects: e.h.Effects(e.T, e.s, name(i))}, true
		})
	}
	if err := h.inOneOrder(inboxContract); err != nil {
		e.Error(err)
	}
}

// deliver processes a message with a handler that has an effect, and may fail then.
func (e *env[Tx]) deliver(ctx context.Context, id string, d delivery) (deliveryTold, error) {
	m := msg(id, "k")
	var outcome inbox.Outcome
	err := repeatConflicts(func() (err error) {
		outcome, err = e.s.ProcessOnce(ctx, inbox.RecordOf("billing", &m), func(ctx context.Context, tx Tx) error {
			if err := e.h.Effect(ctx, e.s, tx, id); err != nil || !d.fails {
				return err
			}
			return errHandler
		})
		return err
	})
	if errors.Is(err, errHandler) {
		return deliveryTold{outcome: handlerFailed}, nil
	}
	if err != nil {
		return deliveryTold{}, err
	}
	return deliveryTold{outcome: outcome.String()}, nil
}
