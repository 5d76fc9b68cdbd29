package rows

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/outbox"
)

// SettleMessages implements [contract.Source]. Round trips: 3 if all messages were published, 5 with the
// archive; else up to 10 for each message that is not simply published, and up to 3 for each unit.
func (e *Engine[S]) SettleMessages(ctx context.Context, req contract.SettleRequest) (lost []int, err error) {
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		held, err := t.heldLanes(ctx, req)
		if err != nil {
			return err
		}
		lost = settleplan.Lost(req.Settlements, held)
		return t.settle(ctx, settleplan.New(settleplan.Keep(req.Settlements, held)), req)
	})
	return lost, err
}

// heldLanes locks the lanes of the settlements and returns those that the relay still owns.
func (t *Tx) heldLanes(ctx context.Context, req contract.SettleRequest) ([]int, error) {
	numbers := slices.Sorted(maps.Keys(lanesOf(req.Settlements)))
	if err := t.Lock(ctx, numbers...); err != nil {
		return nil, err
	}
	stored, err := t.Lanes.Get(ctx, numbers...)
	var owned []contract.Lane
	for _, l := range stored {
		if l.Owner == req.Node {
			owned = append(owned, contract.Lane{Number: l.Number, Epoch: l.Epoch})
		}
	}
	return settleplan.Held(req.Settlements, owned), err
}

func lanesOf(list []contract.Settlement) map[int]bool {
	set := make(map[int]bool)
	for i := range list {
		set[list[i].Claim.Lane.Number] = true
	}
	return set
}

// settle does the steps of a plan in their order.
func (t *Tx) settle(ctx context.Context, p *settleplan.Plan, req contract.SettleRequest) error {
	steps := []func() error{
		func() error { return t.published(ctx, p.Published, req.Archive) },
		func() error { return t.park(ctx, p.Park, req.Node) },
		func() error { return each(p.Follow, func(r settleplan.Row) error { return t.follow(ctx, r) }) },
		func() error {
			return t.leave(ctx, p.Done, func(_ settleplan.Row, w *Waiting) error { return t.archive(ctx, w, req.Archive) })
		},
		func() error { return t.leave(ctx, p.Routed, func(settleplan.Row, *Waiting) error { return nil }) },
		func() error {
			return t.leave(ctx, p.Bury, func(r settleplan.Row, w *Waiting) error {
				w.History = t.history(w.History, w.Attempts, r, req.Node)
				return t.bury(ctx, w, r)
			})
		},
		func() error {
			return t.leave(ctx, p.Schedule, func(_ settleplan.Row, w *Waiting) error { return t.Scheduled.Put(ctx, &w.Row) })
		},
		func() error { return each(p.Retry, func(r settleplan.Row) error { return t.retry(ctx, r, req.Node) }) },
		func() error { return each(p.Promote, func(u settleplan.Unit) error { return t.promote(ctx, u) }) },
	}
	return each(steps, func(step func() error) error { return step() })
}

// published takes rows out of the outbox.
func (t *Tx) published(ctx context.Context, list []contract.Settlement, archive bool) error {
	if len(list) == 0 {
		return nil
	}
	positions := make([]int64, len(list))
	destinations := make(map[int64]string, len(list))
	for i, st := range list {
		positions[i] = st.Claim.Position
		destinations[st.Claim.Position] = st.Claim.Destination
	}
	if archive {
		found, err := t.Outbox.Get(ctx, positions...)
		if err != nil {
			return err
		}
		rows := make([]*Archived, len(found))
		for i, r := range found {
			r.Destination = destinations[r.Position]
			rows[i] = &Archived{Row: *r, PublishedAt: t.Now}
		}
		if err := t.Archive.Add(ctx, rows...); err != nil {
			return err
		}
	}
	return t.Outbox.Delete(ctx, positions...)
}

func (t *Tx) archive(ctx context.Context, w *Waiting, keep bool) error {
	if !keep {
		return nil
	}
	return t.Archive.Add(ctx, &Archived{Row: w.Row, Attempts: w.Attempts, PublishedAt: t.Now})
}

// waits returns the waiting row of a step, nil if it is gone.
func (t *Tx) waits(ctx context.Context, r settleplan.Row) (*Waiting, error) {
	return get(ctx, t.Waiting, Place{r.Position, r.Destination})
}

// leave removes the waiting rows of a step that are still there, and calls do for each.
func (t *Tx) leave(ctx context.Context, rows []settleplan.Row, do func(settleplan.Row, *Waiting) error) error {
	return each(rows, func(r settleplan.Row) error {
		w, err := t.waits(ctx, r)
		if err != nil || w == nil {
			return err
		}
		if err := t.Waiting.Delete(ctx, w.Place()); err != nil {
			return err
		}
		return do(r, w)
	})
}

// park moves rows from the outbox to the waiting rows.
func (t *Tx) park(ctx context.Context, rows []settleplan.Row, node string) error {
	if len(rows) == 0 {
		return nil
	}
	positions := make([]int64, len(rows))
	for i, r := range rows {
		positions[i] = r.Position
	}
	found, err := t.Outbox.Get(ctx, positions...)
	if err != nil {
		return err
	}
	if err := t.Outbox.Delete(ctx, positions...); err != nil {
		return err
	}
	from := make(map[int64]*Row, len(found))
	for _, r := range found {
		from[r.Position] = r
	}
	return each(rows, func(r settleplan.Row) error {
		if row := from[r.Position]; row != nil {
			return t.parkOne(ctx, r, row, node)
		}
		return nil
	})
}

func (t *Tx) parkOne(ctx context.Context, r settleplan.Row, row *Row, node string) error {
	there, err := t.waitsFor(ctx, row, r.Destination)
	if there || err != nil {
		return err
	}
	w := waiting(row, r.Destination)
	w.Alone, w.Attempts, w.Life, w.Error = r.Alone, r.Attempts, r.Life, r.Error
	if w.DueAt, err = t.dueAfter(ctx, r, w); err != nil {
		return err
	}
	if r.Attempts > 0 {
		w.FirstFailed = t.Now
		w.History = t.history(nil, 0, r, node)
	}
	return t.Waiting.Put(ctx, w)
}

// dueAfter returns when a row is due, the zero time if it is behind something in its unit.
func (t *Tx) dueAfter(ctx context.Context, r settleplan.Row, w *Waiting) (time.Time, error) {
	if r.Behind {
		return time.Time{}, nil
	}
	if !r.Alone {
		behind, err := t.waitsBefore(ctx, &w.Row)
		if behind || err != nil {
			return time.Time{}, err
		}
	}
	return t.Now.Add(r.After), nil
}

// waitsFor reports whether a message waits for a destination.
func (t *Tx) waitsFor(ctx context.Context, r *Row, destination string) (bool, error) {
	return exists(ctx, t.Waiting, append(waits.same(r.identity()), waits.Destination.is(destination))...)
}

// same holds for rows whose message has an identity.
func (c ofRow[V]) same(id outbox.Identity) []Condition[V] {
	return []Condition[V]{c.MessageID.is(id.ID), c.Source.is(id.Source), c.Tenant.is(id.Tenant)}
}

// follow gives a waiting row another one, for a further destination.
func (t *Tx) follow(ctx context.Context, r settleplan.Row) error {
	w, err := t.waits(ctx, r)
	if err != nil || w == nil {
		return err
	}
	there, err := t.waitsFor(ctx, &w.Row, r.Follower)
	if there || err != nil {
		return err
	}
	f := waiting(&w.Row, r.Follower)
	if f.Message.Key == "" {
		f.DueAt = t.Now
	}
	return t.Waiting.Put(ctx, f)
}

// retry records when a waiting row is due again, and the result of its last attempt.
func (t *Tx) retry(ctx context.Context, r settleplan.Row, node string) error {
	w, err := t.waits(ctx, r)
	if err != nil || w == nil || r.Behind && r.Error == "" && w.DueAt.IsZero() { // it is behind already
		return err
	}
	w.History = t.history(w.History, w.Attempts, r, node)
	if w.DueAt, err = t.dueAfter(ctx, r, w); err != nil {
		return err
	}
	w.Alone, w.Attempts, w.Life = r.Alone, r.Attempts, r.Life
	if !r.Behind || r.Error != "" {
		w.Error = r.Error
	}
	if r.Attempts > 0 {
		w.FirstFailed = orNow(w.FirstFailed, t.Now)
	}
	return t.Waiting.Put(ctx, w)
}

// history returns the attempts of a row, with the latest one if there was one.
func (t *Tx) history(past []deadletter.Attempt, attempts int, r settleplan.Row, node string) []deadletter.Attempt {
	if r.Attempts <= attempts {
		return past
	}
	return tried(past, deadletter.Attempt{At: t.Now, Node: node, Took: r.Took, Error: r.Error})
}

// bury makes a row a dead letter, with the number that it had if it was one before.
func (t *Tx) bury(ctx context.Context, w *Waiting, r settleplan.Row) error {
	return t.addLetter(ctx, &Letter{Row: w.Row, Letter: deadletter.Letter{
		Number: w.Letter, Origin: deadletter.FromRelay, Destination: w.Destination, Reason: r.Reason, Error: r.Error,
		Attempts: r.Attempts, Requeues: w.Life, Failed: r.Failed, Parks: r.Parks, State: deadletter.Open, Replay: w.Replay,
		Fingerprint: deadletter.Fingerprint(deadletter.FromRelay, w.Message.Address(), w.Message.Type, r.Error),
		FirstFailed: orNow(w.FirstFailed, t.Now), LastFailed: t.Now, History: w.History,
	}})
}

// addLetter stores a dead letter under its number, or under the next one if that is 0.
func (t *Tx) addLetter(ctx context.Context, l *Letter) (err error) {
	if l.Number == 0 {
		if l.Number, _, err = t.Draw(ctx, Letters, 1); err != nil {
			return err
		}
	}
	return t.Letters.Put(ctx, l)
}
