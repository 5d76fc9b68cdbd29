package interleave_test

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
)

func laneScenarios[Tx any]() []scenario[Tx] {
	return []scenario[Tx]{
		{"three relays join", nil, []session[Tx]{joins[Tx]("r2"), joins[Tx]("r3"), joins[Tx]("r4")}, wantLanesApart[Tx]},
		{"a relay renews while another takes its lanes", expiring[Tx]("a"), []session[Tx]{renews[Tx], joins[Tx]("r2")}, wantLanesApart[Tx]},
		{"a relay gives its lanes away while it settles", shared[Tx], []session[Tx]{settles[Tx](contract.Published), givesAway[Tx]}, wantPublished[Tx]("a", "b")},
		{"a relay gives its lanes away while a message fails", shared[Tx], []session[Tx]{settles[Tx](contract.Wait), givesAway[Tx]}, wantOrder[Tx]("a", "b")},
		{"a relay leaves while it settles", ready[Tx]("a", "b"), []session[Tx]{settles[Tx](contract.Published), leaves[Tx]}, wantPublished[Tx]("a", "b")},
		{"a relay leaves while a message fails", ready[Tx]("a", "b"), []session[Tx]{settles[Tx](contract.Wait), leaves[Tx]}, wantOrder[Tx]("a", "b")},
		{"the archive is maintained while messages are settled", ready[Tx]("a", "b"), []session[Tx]{relays[Tx](1), maintains[Tx]}, wantArchived[Tx]},
		{"the archive is maintained twice", archived[Tx], []session[Tx]{maintains[Tx], maintains[Tx]}, wantPlaces[Tx]("a", inspect.Published)},
	}
}

// shared is ready, where the lane of the messages is known.
func shared[Tx any](ctx context.Context, e *env[Tx]) error {
	claims, err := e.claimed(ctx, "a", "b")
	if err == nil {
		e.lane = claims[0].Lane.Number
	}
	return err
}

// renews is r1, whose lease has run out.
func renews[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	lease, err := p.RenewLanes(ctx, contract.LeaseRequest{Node: "r1", TTL: 10 * time.Hour})
	p.lanes = lease.Lanes
	p.say("has %d lanes", len(lease.Lanes))
	return unless(err, waybill.ErrLeaseLost)
}

// givesAway lets another relay join, and r1 give it the lane of the messages.
func givesAway[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	if _, err := p.RenewLanes(ctx, contract.LeaseRequest{Node: "r2", Join: true, TTL: time.Hour}); err != nil {
		return err
	}
	if _, err := p.RenewLanes(ctx, contract.LeaseRequest{Node: "r1", TTL: time.Hour, Give: []int{e.lane}}); err != nil {
		return err
	}
	return takesOver(ctx, e, p)
}

// leaves lets r1 leave, and another relay take its lanes.
func leaves[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	if err := p.LeaveLanes(ctx, "r1"); err != nil {
		return err
	}
	return takesOver(ctx, e, p)
}

// maintains removes what was published two hours ago.
func maintains[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	done, err := p.MaintainArchive(ctx, contract.MaintainRequest{Retention: 2 * time.Hour, BatchSize: 10})
	p.say("busy %v", done.Busy)
	return err
}

// archived has messages that were published.
func archived[Tx any](ctx context.Context, e *env[Tx]) error {
	if err := ready[Tx]("a", "b")(ctx, e); err != nil {
		return err
	}
	_, err := e.drain(ctx)
	return err
}

// wantArchived expects that what was published is in the archive, and that the rest can be published.
func wantArchived[Tx any](ctx context.Context, e *env[Tx]) error {
	rest, err := e.drain(ctx)
	if err != nil {
		return err
	}
	if len(rest) > 0 && !e.parties[0].clashed() {
		return errors.New("messages were settled, and are to be published again")
	}
	for _, id := range []string{"a", "b"} {
		if err := e.wantPlaces(ctx, id, inspect.Published); err != nil {
			return err
		}
	}
	return nil
}
