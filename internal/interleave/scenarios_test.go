package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
)

// conflicts marks an error of a user's own transaction as the stores mark those of theirs.
func conflicts(err error) error {
	var state interface{ SQLState() string }
	if errors.As(err, &state) && (state.SQLState() == "40001" || state.SQLState() == "40P01") {
		return waybill.ConflictError(err)
	}
	return err
}

// tooSlow reports whether the server has ended a transaction that stood still for too long, as the stores
// ask it to.
func tooSlow(err error) bool {
	var state interface{ SQLState() string }
	return errors.As(err, &state) && state.SQLState() == "25P03"
}

func scenarios[Tx any]() []scenario[Tx] {
	return slices.Concat(cancelScenarios[Tx](), writerScenarios[Tx](), laneScenarios[Tx](), letterScenarios[Tx](), inboxScenarios[Tx](), scheduleScenarios[Tx](), []scenario[Tx]{
		{"two writers of one id", ready[Tx](), []session[Tx]{writer[Tx]("a"), writer[Tx]("a")}, wantDrained[Tx]()},
		{"two writers of two ids in opposite order", ready[Tx](), []session[Tx]{writer[Tx]("a", "b"), writer[Tx]("b", "a")}, wantDrained[Tx]()},
		{"a writer commits while a relay works", ready[Tx]("a"), []session[Tx]{relays[Tx](2), writer[Tx]("b")}, wantDrained[Tx]("a")},
		{"two writers and a relay", ready[Tx](), []session[Tx]{relays[Tx](1), writer[Tx]("a"), writer[Tx]("b")}, wantDrained[Tx]()},
		{"messages are settled twice", ready[Tx]("a", "b"), []session[Tx]{relays[Tx](1), relays[Tx](1)}, wantPlaces[Tx]("a", inspect.Published)},
		{"a message is dead-lettered twice", ready[Tx]("a"), []session[Tx]{parks[Tx], parks[Tx]}, wantPlaces[Tx]("a", inspect.Dead)},
		{"a letter is requeued twice", dead[Tx]("a"), []session[Tx]{requeues[Tx], requeues[Tx]}, wantOneOf[Tx]("requeued")},
		{"a letter is requeued and resolved", dead[Tx]("a"), []session[Tx]{requeues[Tx], resolves[Tx]}, wantOneOf[Tx]("requeued", "resolved")},
		{"a letter is requeued and discarded", dead[Tx]("a"), []session[Tx]{requeues[Tx], discards[Tx]}, wantOneOf[Tx]("requeued", "discarded")},
		{"a letter is requeued and deleted", dead[Tx]("a"), []session[Tx]{requeues[Tx], deletes[Tx]}, wantOneOf[Tx]("requeued", "deleted")},
		{"a letter is requeued and its id is enqueued", dead[Tx]("a"), []session[Tx]{requeues[Tx], writer[Tx]("a")}, wantEach[Tx]},
		{"a writer repeats an id while it is put off", ready[Tx]("a"), []session[Tx]{settles[Tx](contract.Wait), writer[Tx]("a")}, wantPending[Tx]},
		{"a relay is superseded", expiring[Tx]("a", "b"), []session[Tx]{settles[Tx](contract.Published), takesOver[Tx]}, wantPublished[Tx]("a", "b")},
		{"a relay is superseded while a message fails", expiring[Tx]("a", "b"), []session[Tx]{settles[Tx](contract.Wait), takesOver[Tx]}, wantOrder[Tx]("a", "b")},
		{"two relays take the lanes of a third", expiring[Tx]("a"), []session[Tx]{joins[Tx]("r2"), joins[Tx]("r3")}, wantLanesApart[Tx]},
		{"a writer adds to a key while it is parked", ready[Tx]("a"), []session[Tx]{parks[Tx], writer[Tx]("b")}, wantParked[Tx]},
		{"a parked key is released while a follower is put behind", parked[Tx], []session[Tx]{follows[Tx], resolves[Tx]}, wantReleased[Tx]},
		{"a parked key is requeued while a follower is put behind", parked[Tx], []session[Tx]{follows[Tx], requeues[Tx]}, wantReleased[Tx]},
		{"a scheduled message is cancelled while it is released", scheduled[Tx], []session[Tx]{releases[Tx], cancels[Tx]}, wantCancelledOrPending[Tx]},
		{"two relays release a scheduled message", scheduled[Tx], []session[Tx]{releases[Tx], releases[Tx]}, wantOnePending[Tx]},
		{"an id is enqueued while its scheduled message is released", scheduled[Tx], []session[Tx]{releases[Tx], writer[Tx]("a")}, wantPending[Tx]},
		{"a key is leased three times", nil, []session[Tx]{leases[Tx], leases[Tx], leases[Tx]}, wantOneLease[Tx]},
		{"a lease that has run out is marked and taken over", leased[Tx], []session[Tx]{marks[Tx], leases[Tx]}, wantMarkedOrTaken[Tx]},
		{"a letter is purged while it is requeued", dead[Tx]("a"), []session[Tx]{purges[Tx](janitor.Letters), requeues[Tx]}, wantPurgedOrRequeued[Tx]},
		{"two copies of a message", nil, []session[Tx]{handles[Tx](nil), handles[Tx](nil)}, wantOneEffect[Tx]},
		{"three copies of a message", nil, []session[Tx]{handles[Tx](nil), handles[Tx](nil), handles[Tx](nil)}, wantOneEffect[Tx]},
		{"two copies, of which one fails", nil, []session[Tx]{handles[Tx](errHandler), handles[Tx](nil)}, wantOneEffect[Tx]},
		{"a copy while its message is dead-lettered", nil, []session[Tx]{buries[Tx], handles[Tx](nil)}, wantBuriedOrDone[Tx]},
	})
}

// wantDrained expects that what was enqueued, before and by writers, is published once. A relay that goes on reading
// finds what the others have committed behind its back.
func wantDrained[Tx any](before ...string) func(context.Context, *env[Tx]) error {
	return func(ctx context.Context, e *env[Tx]) error {
		want, got, found := slices.Clone(before), []string(nil), false
		for _, p := range e.parties[:e.active] {
			want, got = append(want, p.committed...), append(got, p.sent...)
			if p.reads {
				more, err := e.drainBy(ctx, p, p.clashed())
				if err != nil {
					return err
				}
				got, found = append(got, more...), true
			}
		}
		rest, err := e.drain(ctx)
		if err != nil {
			return err
		}
		if found && len(rest) > 0 {
			return fmt.Errorf("the relay does not find %v", rest)
		}
		got = append(got, rest...)
		slices.Sort(want)
		slices.Sort(got)
		if want = slices.Compact(want); !slices.Equal(got, want) {
			return fmt.Errorf("published %v, want %v", got, want)
		}
		return nil
	}
}

// wantPlaces expects a message in these places.
func wantPlaces[Tx any](id string, want ...inspect.Status) func(context.Context, *env[Tx]) error {
	return func(ctx context.Context, e *env[Tx]) error { return e.wantPlaces(ctx, id, want...) }
}

// wantOneOf expects that one of the sessions has done what it wanted, or none because both have clashed.
func wantOneOf[Tx any](verbs ...string) func(context.Context, *env[Tx]) error {
	return func(ctx context.Context, e *env[Tx]) error {
		done := ""
		for _, p := range e.parties {
			for _, note := range p.notes {
				if slices.Contains(verbs, note) {
					if done != "" {
						return fmt.Errorf("the letter was %s and %s", done, note)
					}
					done = note
				}
			}
		}
		switch done {
		case "requeued":
			return e.wantPlaces(ctx, "a", inspect.Waiting)
		case "deleted":
			return e.wantPlaces(ctx, "a")
		case "discarded":
			return e.wantPlaces(ctx, "a", inspect.Discarded)
		case "":
			return errors.New("nobody has succeeded")
		}
		return e.wantPlaces(ctx, "a", inspect.Dead)
	}
}

// wantOnePending expects the message a in the outbox once.
func wantOnePending[Tx any](ctx context.Context, e *env[Tx]) error {
	places, err := e.places(ctx, "a")
	pending := 0
	for _, s := range places {
		if s == inspect.Pending || s == inspect.Waiting {
			pending++
		}
	}
	if err == nil && pending != 1 {
		err = fmt.Errorf("message a is %v", places)
	}
	return err
}

// wantPending expects the message a in the outbox, once or twice: docs/guarantees.md, "The same id again".
func wantPending[Tx any](ctx context.Context, e *env[Tx]) error {
	places, err := e.places(ctx, "a")
	if err == nil && !slices.Contains(places, inspect.Pending) && !slices.Contains(places, inspect.Waiting) {
		err = fmt.Errorf("message a is %v", places)
	}
	return err
}

// wantOneEffect expects the effect of the one handler that has committed; of none only if each has failed or clashed.
func wantOneEffect[Tx any](ctx context.Context, e *env[Tx]) error {
	got, err := e.effects(ctx)
	if err != nil {
		return err
	}
	done, gone := 0, 0
	for _, p := range e.parties[:e.active] {
		switch {
		case p.clashed(), slices.Contains(p.notes, "failed"):
			gone++
		case slices.Contains(p.notes, fmt.Sprint(inbox.Processed)):
			done++
		}
	}
	if done > 1 || len(got) != done || done == 0 && gone < e.active {
		return fmt.Errorf("effects %v of %d handlers that have committed, want one", got, done)
	}
	return nil
}

// wantBuriedOrDone expects a dead letter or an effect.
func wantBuriedOrDone[Tx any](ctx context.Context, e *env[Tx]) error {
	effects, err := e.effects(ctx)
	if err != nil {
		return err
	}
	letters, err := e.admin.DeadLetters(ctx, deadletter.Filter{})
	if err == nil && len(effects)+len(letters) != 1 {
		err = fmt.Errorf("%d effects and %d dead letters, want one of both", len(effects), len(letters))
	}
	return err
}

// ready puts messages of one key into the outbox and makes r1 the owner of all lanes.
func ready[Tx any](ids ...string) func(context.Context, *env[Tx]) error {
	return func(ctx context.Context, e *env[Tx]) error {
		for _, id := range ids {
			if _, err := e.admin.Transact(ctx, func(context.Context, Tx) (outbox.Batch, error) {
				return outbox.Batch{Messages: []waybill.Message{msg(id, "k")}}, nil
			}); err != nil {
				return err
			}
		}
		return e.join(ctx, "r1")
	}
}

// dead makes dead letters.
func dead[Tx any](ids ...string) func(context.Context, *env[Tx]) error {
	return func(ctx context.Context, e *env[Tx]) error {
		claims, err := e.claimed(ctx, ids...)
		if err != nil {
			return err
		}
		list := settled(contract.Dead, claims...)
		for i := range list {
			list[i].Reason, list[i].Attempts = waybill.ReasonExhausted, 1
		}
		if _, err = e.admin.SettleMessages(ctx, contract.SettleRequest{Node: "r1", Settlements: list}); err != nil {
			return err
		}
		return e.findLetter(ctx)
	}
}

// writer enqueues one message after the other in one transaction.
func writer[Tx any](ids ...string) session[Tx] {
	return func(ctx context.Context, _ *env[Tx], p *party[Tx]) error {
		err := p.inTx(ctx, func(tx Tx) error {
			for _, id := range ids {
				isNew, err := p.enqueue(ctx, tx, msg(id, "k"))
				if err != nil {
					return conflicts(err)
				}
				p.say("%s new %v", id, isNew[0])
			}
			return nil
		})
		if err == nil {
			p.committed = ids
		}
		return err
	}
}

// relays claims and settles as published, a number of rounds.
func relays[Tx any](rounds int) session[Tx] {
	return func(ctx context.Context, e *env[Tx], p *party[Tx]) error {
		var again []int
		for _, l := range e.lease.Lanes {
			again = append(again, l.Number)
		}
		p.reads = true
		for range rounds {
			claims, err := p.ClaimMessages(ctx, contract.ClaimRequest{Lanes: e.lease.Lanes, Limit: 100, Due: true, Again: again})
			if err != nil {
				return err
			}
			again = nil
			p.say("sends %v", idsOf(claims))
			lost, err := p.SettleMessages(ctx, contract.SettleRequest{Node: "r1", Archive: true, Settlements: settled(contract.Published, claims...)})
			if err != nil {
				return err
			}
			if len(lost) > 0 {
				return fmt.Errorf("lanes %v are lost", lost)
			}
			p.sent = append(p.sent, idsOf(claims)...)
		}
		return nil
	}
}

var errHandler = errors.New("the handler fails")

// handles delivers a message to a consumer.
func handles[Tx any](fails error) session[Tx] {
	return func(ctx context.Context, _ *env[Tx], p *party[Tx]) error {
		m := msg("a", "k")
		got, err := p.ProcessOnce(ctx, inbox.RecordOf("billing", &m), func(ctx context.Context, tx Tx) error {
			return errors.Join(p.effect(ctx, tx, "a"), fails)
		})
		if errors.Is(err, errHandler) {
			p.say("failed")
			return nil
		}
		if err == nil {
			p.say("%v", got)
		}
		return err
	}
}

// buries dead-letters the message at a consumer.
func buries[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	m := msg("a", "k")
	done, err := p.BuryMessage(ctx, inbox.Letter{Record: inbox.RecordOf("billing", &m), Message: m, Reason: waybill.ReasonRejected, Error: "no", Attempts: 1})
	p.say("buried %v", done)
	return err
}

var operator = deadletter.Act{By: "ann", Why: "test"}

// operates does something with the only dead letter.
func operates[Tx any](verb string, do func(*party[Tx]) func(context.Context, int64, deadletter.Act) (bool, error)) session[Tx] {
	return func(ctx context.Context, e *env[Tx], p *party[Tx]) error {
		done, err := do(p)(ctx, e.letter, operator)
		switch {
		case errors.Is(err, deadletter.ErrRequeued), errors.Is(err, deadletter.ErrResolved), errors.Is(err, waybill.ErrNotFound):
			p.say("not %s", verb)
			return nil
		case done:
			p.say("%s", verb)
		case err == nil:
			p.say("not %s", verb)
		}
		return err
	}
}

func requeues[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	return operates("requeued", func(p *party[Tx]) func(context.Context, int64, deadletter.Act) (bool, error) {
		return p.RequeueDeadLetter
	})(ctx, e, p)
}

func resolves[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	return operates("resolved", func(p *party[Tx]) func(context.Context, int64, deadletter.Act) (bool, error) {
		return p.ResolveDeadLetter
	})(ctx, e, p)
}

func discards[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	return operates("discarded", func(p *party[Tx]) func(context.Context, int64, deadletter.Act) (bool, error) {
		return p.DiscardDeadLetter
	})(ctx, e, p)
}

func deletes[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	return operates("deleted", func(p *party[Tx]) func(context.Context, int64, deadletter.Act) (bool, error) {
		return p.DeleteDeadLetter
	})(ctx, e, p)
}

// expiring is ready, with a relay whose lease has run out.
func expiring[Tx any](ids ...string) func(context.Context, *env[Tx]) error {
	return func(ctx context.Context, e *env[Tx]) error {
		if err := ready[Tx](ids...)(ctx, e); err != nil {
			return err
		}
		return e.advance(ctx, 2*time.Hour)
	}
}

// settles claims, and settles all claims with one outcome.
func settles[Tx any](outcome contract.Outcome) session[Tx] {
	return func(ctx context.Context, e *env[Tx], p *party[Tx]) error {
		claims, err := e.claim(ctx, p, e.lease)
		if err != nil {
			return err
		}
		list := settled(outcome, claims...)
		for i := range list {
			switch {
			case outcome == contract.Published:
				p.sent = append(p.sent, claims[i].Message.ID)
			case i > 0:
				list[i].Behind = true
			}
		}
		lost, err := p.SettleMessages(ctx, contract.SettleRequest{Node: "r1", Archive: true, Settlements: list})
		p.say("settles %d, lost %d lanes", len(list), len(lost))
		return err
	}
}

// takesOver joins as another relay, and publishes what it finds in the lanes that it gets.
func takesOver[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	held, err := p.RenewLanes(ctx, contract.LeaseRequest{Node: "r2", Join: true, TTL: 10 * time.Hour})
	if err != nil {
		return err
	}
	claims, err := e.claim(ctx, p, held)
	if err != nil {
		return err
	}
	lost, err := p.SettleMessages(ctx, contract.SettleRequest{Node: "r2", Archive: true, Settlements: settled(contract.Published, claims...)})
	if err == nil {
		p.sent = idsOf(claims)
	}
	p.say("has %d lanes, sends %v, lost %d", len(held.Lanes), idsOf(claims), len(lost))
	return err
}

// joins is a relay that joins.
func joins[Tx any](node string) session[Tx] {
	return func(ctx context.Context, _ *env[Tx], p *party[Tx]) error {
		held, err := p.RenewLanes(ctx, contract.LeaseRequest{Node: node, Join: true, TTL: 10 * time.Hour})
		p.lanes = held.Lanes
		p.say("has %d lanes", len(held.Lanes))
		return err
	}
}

// wantLanesApart expects that no lane was given to two relays under one epoch.
func wantLanesApart[Tx any](_ context.Context, e *env[Tx]) error {
	given := make(map[contract.Lane]bool)
	for _, p := range e.parties {
		for _, l := range p.lanes {
			if given[l] {
				return fmt.Errorf("two relays own lane %d in epoch %d", l.Number, l.Epoch)
			}
			given[l] = true
		}
	}
	return nil
}

// wantPublished expects that each message was settled as published once, whoever sent it.
func wantPublished[Tx any](ids ...string) func(context.Context, *env[Tx]) error {
	return func(ctx context.Context, e *env[Tx]) error {
		if _, err := e.finish(ctx); err != nil {
			return err
		}
		for _, id := range ids {
			if err := e.wantPlaces(ctx, id, inspect.Published); err != nil {
				return err
			}
		}
		return nil
	}
}

// wantOrder expects that the messages were sent in order, and that each is settled once.
func wantOrder[Tx any](ids ...string) func(context.Context, *env[Tx]) error {
	return func(ctx context.Context, e *env[Tx]) error {
		rest, err := e.finish(ctx)
		if err != nil {
			return err
		}
		got := append(slices.Concat(e.parties[0].sent, e.parties[1].sent), rest...)
		if !slices.Equal(got, ids) {
			return fmt.Errorf("sent %v, want %v", got, ids)
		}
		return wantPublished[Tx](ids...)(ctx, e)
	}
}

// finish lets everything come due, and publishes what is left as a relay that has all lanes.
func (e *env[Tx]) finish(ctx context.Context) ([]string, error) {
	if err := e.advance(ctx, 100*time.Hour); err != nil {
		return nil, err
	}
	if err := e.join(ctx, "last"); err != nil {
		return nil, err
	}
	return e.drain(ctx)
}

// parks dead-letters the first message, which parks its key.
func parks[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	claims, err := e.claim(ctx, p, e.lease)
	if err != nil {
		return err
	}
	list := settled(contract.Dead, claims...)
	for i := range list {
		list[i].Reason, list[i].Attempts, list[i].Park = waybill.ReasonExhausted, 1, true
		if i > 0 {
			list[i] = contract.Settlement{Claim: list[i].Claim, Outcome: contract.Wait, Behind: true}
		}
	}
	p.say("has %v", idsOf(claims))
	_, err = p.SettleMessages(ctx, contract.SettleRequest{Node: "r1", Settlements: list})
	return err
}

// wantParked expects that what follows a parked message is claimed as blocked, or waits behind it.
func wantParked[Tx any](ctx context.Context, e *env[Tx]) error {
	if e.parties[0].clashed() {
		return nil // nothing is parked
	}
	claims, err := e.claim(ctx, e.admin, e.lease)
	for _, c := range claims {
		if !c.Blocked {
			return fmt.Errorf("message %s may go, although its key is parked", c.Message.ID)
		}
	}
	return err
}

// parked has a letter that parks its key, and a follower in the outbox.
func parked[Tx any](ctx context.Context, e *env[Tx]) error {
	if err := ready[Tx]("a")(ctx, e); err != nil {
		return err
	}
	if err := parks(ctx, e, e.admin); err != nil {
		return err
	}
	if err := e.findLetter(ctx); err != nil {
		return err
	}
	_, err := e.admin.Transact(ctx, func(context.Context, Tx) (outbox.Batch, error) {
		return outbox.Batch{Messages: []waybill.Message{msg("b", "k")}}, nil
	})
	return err
}

// follows puts what is blocked behind the letter of its key.
func follows[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	claims, err := e.claim(ctx, p, e.lease)
	if err != nil {
		return err
	}
	var list []contract.Settlement
	for i := range claims {
		if claims[i].Message.ID == "b" && claims[i].Blocked {
			list = append(list, contract.Settlement{Claim: &claims[i], Outcome: contract.Wait, Behind: true})
		}
	}
	p.say("%d follow", len(list))
	_, err = p.SettleMessages(ctx, contract.SettleRequest{Node: "r1", Settlements: list})
	return err
}

// wantReleased expects that the follower can go.
func wantReleased[Tx any](ctx context.Context, e *env[Tx]) error {
	if e.parties[1].clashed() {
		return nil // the dead letter is there
	}
	rest, err := e.finish(ctx)
	if err == nil && !slices.Contains(rest, "b") {
		err = fmt.Errorf("published %v: the follower is left behind a letter that is gone", rest)
	}
	return err
}

// scheduled has a message that has come due.
func scheduled[Tx any](ctx context.Context, e *env[Tx]) error {
	m := msg("a", "k")
	m.DeliverAt = time.Now().Add(time.Hour)
	if err := e.admin.inTx(ctx, func(tx Tx) error {
		_, err := e.admin.AddScheduled(ctx, tx, &m)
		return err
	}); err != nil {
		return err
	}
	return e.advance(ctx, 2*time.Hour)
}

func releases[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	n, err := p.ReleaseScheduled(ctx, 10)
	p.say("releases %d", n)
	return err
}

func cancels[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	var done bool
	err := p.inTx(ctx, func(tx Tx) (err error) {
		done, err = p.CancelScheduled(ctx, tx, "a")
		return err
	})
	if err == nil {
		p.say("cancelled %v", done)
	}
	return err
}

func wantCancelledOrPending[Tx any](ctx context.Context, e *env[Tx]) error {
	places, err := e.places(ctx, "a")
	cancelled := slices.Contains(e.parties[1].notes, "cancelled true")
	if err == nil && (len(places) == 0) != cancelled {
		err = fmt.Errorf("message a is %v; cancelled: %v", places, cancelled)
	}
	return err
}

func leaseRequest() lease.Request { return lease.Request{Key: "key", TTL: time.Minute} }

func leases[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	a, err := p.TryBegin(ctx, leaseRequest())
	p.say("%v", a.Status)
	return err
}

// wantOneLease expects that one of the sessions has the lease, or none if one has clashed.
func wantOneLease[Tx any](_ context.Context, e *env[Tx]) error {
	return e.wantOne(fmt.Sprint(lease.Acquired))
}

// wantOne expects that one of the sessions has noted something, or none if one has clashed.
func (e *env[Tx]) wantOne(note string) error {
	n := len(e.said(note))
	if n > 1 || n == 0 && !e.anyClashed() {
		return fmt.Errorf("%d sessions have noted %q", n, note)
	}
	return nil
}

func (e *env[Tx]) anyClashed() bool {
	return slices.ContainsFunc(e.parties[:e.active], (*party[Tx]).clashed)
}

// leased has a lease that has run out.
func leased[Tx any](ctx context.Context, e *env[Tx]) error {
	a, err := e.admin.TryBegin(ctx, leaseRequest())
	if err != nil {
		return err
	}
	e.held = lease.Lease{Key: "key", ID: a.LeaseID, Token: a.Token}
	return e.advance(ctx, time.Hour)
}

func marks[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	status, err := p.MarkProcessed(ctx, e.held)
	p.say("%v", status)
	return err
}

// wantMarkedOrTaken expects that either the mark counts or the lease was taken over.
func wantMarkedOrTaken[Tx any](_ context.Context, e *env[Tx]) error {
	marked := slices.Contains(e.parties[0].notes, fmt.Sprint(lease.Processed))
	taken := slices.Contains(e.parties[1].notes, fmt.Sprint(lease.Acquired))
	if marked == taken {
		return fmt.Errorf("marked: %v, taken over: %v", marked, taken)
	}
	return nil
}

func purges[Tx any](kind janitor.Kind) session[Tx] {
	return func(ctx context.Context, _ *env[Tx], p *party[Tx]) error {
		n, err := p.PurgeExpired(ctx, janitor.Rows{Kind: kind, OlderThan: time.Nanosecond}, 10)
		if errors.Is(err, janitor.ErrBusy) {
			p.say("busy")
			return nil
		}
		p.say("purges %d", n)
		return err
	}
}

// wantEach expects what the sessions received: a is waiting if it was requeued, and pending if it was new; docs/guarantees.md,
// "The same id again".
func wantEach[Tx any](ctx context.Context, e *env[Tx]) error {
	want := []inspect.Status{inspect.Dead}
	if len(e.said("requeued")) > 0 {
		want[0] = inspect.Waiting
	}
	if len(e.parties[1].committed) > 0 && len(e.said("a new true")) > 0 {
		want = append(want, inspect.Pending)
	}
	slices.Sort(want)
	return e.wantPlaces(ctx, "a", want...)
}

// wantPurgedOrRequeued expects that the letter was purged, or that its message is pending again.
func wantPurgedOrRequeued[Tx any](ctx context.Context, e *env[Tx]) error {
	switch done := e.said("purges 1", "requeued"); {
	case len(done) > 1:
		return errors.New("the letter was purged and requeued")
	case len(done) == 0:
		return e.wantPlaces(ctx, "a", inspect.Dead)
	case done[0] == "requeued":
		return e.wantPlaces(ctx, "a", inspect.Waiting)
	}
	return e.wantPlaces(ctx, "a")
}
