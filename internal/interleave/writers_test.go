package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/outbox"
)

func writerScenarios[Tx any]() []scenario[Tx] {
	return []scenario[Tx]{
		{"a writer rolls back while another writes its id", ready[Tx](), []session[Tx]{rollsBack[Tx]("a"), writer[Tx]("a")}, wantDrained[Tx]()},
		{"a writer rolls back while a relay works", ready[Tx]("a"), []session[Tx]{relays[Tx](1), rollsBack[Tx]("b"), writer[Tx]("c")}, wantDrained[Tx]("a")},
		{"a writer is open while a relay claims three times", ready[Tx]("a"), []session[Tx]{relays[Tx](3), writer[Tx]("b"), writer[Tx]("c")}, wantDrained[Tx]("a")},
		{"two writers of one unique id and a relay", ready[Tx](), []session[Tx]{relays[Tx](1), uniqueWriter[Tx]("a"), uniqueWriter[Tx]("a")}, wantDrained[Tx]()},
		{"a producer cancels a message while it is published", ready[Tx]("a", "b"), []session[Tx]{relays[Tx](1), takesBack[Tx]}, wantTakenBack[Tx]},
		{"a producer cancels a message while it fails", ready[Tx]("a", "b"), []session[Tx]{settles[Tx](contract.Wait), takesBack[Tx]}, wantTakenBack[Tx]},
		{"a producer and an operator cancel a message", ready[Tx]("a", "b"), []session[Tx]{takesBack[Tx], cancelsMessage[Tx]}, wantTakenBack[Tx]},
	}
}

func savepointScenarios[Tx any]() []scenario[Tx] {
	return []scenario[Tx]{
		{"a writer returns to a savepoint while another writes the id", ready[Tx](), []session[Tx]{returns[Tx]("a", "b"), writer[Tx]("b")}, wantDrained[Tx]()},
		{"a writer returns to a savepoint while a relay works", ready[Tx]("c"), []session[Tx]{returns[Tx]("a", "b"), relays[Tx](1)}, wantDrained[Tx]("c")},
	}
}

var errGivesUp = errors.New("the transaction is rolled back")

// rollsBack enqueues a message, and rolls back.
func rollsBack[Tx any](id string) session[Tx] {
	return func(ctx context.Context, _ *env[Tx], p *party[Tx]) error {
		err := p.inTx(ctx, func(tx Tx) error {
			if _, err := p.enqueue(ctx, tx, msg(id, "k")); err != nil {
				return conflicts(err)
			}
			return errGivesUp
		})
		return unless(err, errGivesUp)
	}
}

// unless returns err, or nil if it is the one that was meant to happen.
func unless(err, meant error) error {
	if errors.Is(err, meant) {
		return nil
	}
	return err
}

// uniqueWriter enqueues a message whose id may come once only.
func uniqueWriter[Tx any](id string) session[Tx] {
	return func(ctx context.Context, _ *env[Tx], p *party[Tx]) error {
		var isNew []bool
		err := p.inTx(ctx, func(tx Tx) (err error) {
			isNew, err = p.EnqueueMessages(ctx, tx, outbox.Batch{Messages: []waybill.Message{msg(id, "k")}, Remember: true})
			return conflicts(err)
		})
		if err == nil {
			p.say("new %v", isNew[0])
			p.committed = []string{id}
		}
		return err
	}
}

// takesBack cancels the message a in a transaction of the producer.
func takesBack[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	m := msg("a", "k")
	var done outbox.Cancellation
	err := p.inTx(ctx, func(tx Tx) (err error) {
		done, err = p.CancelEnqueued(ctx, tx, outbox.IdentityOf(&m))
		return conflicts(err)
	})
	if err == nil {
		p.say("cancelled %d", done.Removed)
	}
	return err
}

// wantTakenBack expects that a was cancelled once and is kept as discarded, or else is published, and that b is published.
func wantTakenBack[Tx any](ctx context.Context, e *env[Tx]) error {
	rest, err := e.finish(ctx)
	if err != nil {
		return err
	}
	var notes, sent []string
	for _, p := range e.parties[:e.active] {
		notes, sent = append(notes, p.notes...), append(sent, p.sent...)
	}
	want := inspect.Published
	if slices.Contains(notes, "cancelled 1") {
		want = inspect.Discarded
		if i := slices.Index(notes, "cancelled 1"); slices.Contains(notes[i+1:], "cancelled 1") {
			return errors.New("the message was cancelled twice")
		}
	}
	if err := e.wantPlaces(ctx, "a", want); err != nil {
		return err
	}
	if sent = append(sent, rest...); !slices.Contains(sent, "b") {
		return fmt.Errorf("published %v, want b among them", sent)
	}
	return nil
}

// returns enqueues a message, and one behind a savepoint, which it returns to.
func returns[Tx any](kept, undone string) session[Tx] {
	return func(ctx context.Context, _ *env[Tx], p *party[Tx]) error {
		err := p.inTx(ctx, func(tx Tx) error {
			if _, err := p.enqueue(ctx, tx, msg(kept, "k")); err != nil {
				return conflicts(err)
			}
			if err := p.exec(ctx, tx, "SAVEPOINT here"); err != nil {
				return err
			}
			if _, err := p.enqueue(ctx, tx, msg(undone, "k")); err != nil {
				return conflicts(err)
			}
			return p.exec(ctx, tx, "ROLLBACK TO SAVEPOINT here")
		})
		if err == nil {
			p.committed = []string{kept}
		}
		return err
	}
}
