package interleave_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/outbox"
)

func cancelScenarios[Tx any]() []scenario[Tx] {
	return []scenario[Tx]{
		{"a message is cancelled while it fails", ready[Tx]("a", "b"), []session[Tx]{settles[Tx](contract.Wait), cancelsMessage[Tx]}, wantCancelled[Tx]},
		{"a message is cancelled while it is published", ready[Tx]("a", "b"), []session[Tx]{relays[Tx](1), cancelsMessage[Tx]}, wantCancelled[Tx]},
		{"a message is cancelled while one is put behind it", waits[Tx], []session[Tx]{follows[Tx], cancelsMessage[Tx]}, wantCancelled[Tx]},
		{"a message that waits is cancelled while it is released", scheduled[Tx], []session[Tx]{releases[Tx], cancelsMessage[Tx]}, wantCancelled[Tx]},
		{"a message is cancelled twice", waits[Tx], []session[Tx]{cancelsMessage[Tx], cancelsMessage[Tx]}, wantCancelled[Tx]},
	}
}

// cancelsMessage cancels the message a for an operator.
func cancelsMessage[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	m := msg("a", "k")
	done, err := p.CancelMessage(ctx, outbox.IdentityOf(&m), operator)
	if err == nil {
		p.say("cancelled %d", done.Removed)
	}
	return err
}

// waits has a message that waits for a retry, and one of its key in the outbox.
func waits[Tx any](ctx context.Context, e *env[Tx]) error {
	claims, err := e.claimed(ctx, "a")
	if err != nil {
		return err
	}
	list := settled(contract.Wait, claims...)
	list[0].Attempts, list[0].After = 1, time.Hour
	if _, err = e.admin.SettleMessages(ctx, contract.SettleRequest{Node: "r1", Settlements: list}); err != nil {
		return err
	}
	_, err = e.admin.Transact(ctx, func(context.Context, Tx) (outbox.Batch, error) {
		return outbox.Batch{Messages: []waybill.Message{msg("b", "k")}}, nil
	})
	return err
}

// wantCancelled expects that a was cancelled once, or else is published in the end, and that b is.
func wantCancelled[Tx any](ctx context.Context, e *env[Tx]) error {
	if _, err := e.admin.ReleaseScheduled(ctx, 10); err != nil {
		return err
	}
	if _, err := e.finish(ctx); err != nil {
		return err
	}
	cancelled := 0
	for _, p := range e.parties {
		if slices.Contains(p.notes, "cancelled 1") {
			cancelled++
		}
	}
	want := inspect.Published
	switch cancelled {
	case 0:
	case 1:
		want = inspect.Discarded
	default:
		return fmt.Errorf("the message was cancelled %d times", cancelled)
	}
	if err := e.wantPlaces(ctx, "a", want); err != nil {
		return err
	}
	places, err := e.places(ctx, "b")
	if err == nil && len(places) > 0 && !slices.Equal(places, []inspect.Status{inspect.Published}) {
		err = fmt.Errorf("message b is %v, want it published", places)
	}
	return err
}
