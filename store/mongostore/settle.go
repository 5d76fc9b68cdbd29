package mongostore

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/settleplan"
)

// SettleMessages implements [contract.Source].
func (s *Store) SettleMessages(ctx context.Context, req contract.SettleRequest) (lost []int, err error) {
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
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
func (t *tx) heldLanes(ctx context.Context, req contract.SettleRequest) ([]int, error) {
	var lanes []int
	for _, st := range req.Settlements {
		lanes = append(lanes, st.Claim.Lane.Number)
	}
	if err := t.lockLanes(ctx, lanes...); err != nil {
		return nil, err
	}
	docs, err := find[laneDoc](ctx, t.lanes, bson.M{"_id": in(lanes), "owner": req.Node})
	owned := make([]contract.Lane, len(docs))
	for i, l := range docs {
		owned[i] = contract.Lane{Number: l.ID, Epoch: l.Epoch}
	}
	return settleplan.Held(req.Settlements, owned), err
}

// settle does the steps of a plan in their order.
func (t *tx) settle(ctx context.Context, p *settleplan.Plan, req contract.SettleRequest) error {
	steps := []func() error{
		func() error { return t.published(ctx, p.Published, req.Archive) },
		func() error { return t.park(ctx, p.Park, req.Node) },
		func() error { return each(p.Follow, func(r settleplan.Row) error { return t.follow(ctx, r) }) },
		func() error {
			return t.eachWaiting(ctx, p.Done, func(_ settleplan.Row, w waitingDoc) error { return t.done(ctx, w, req.Archive) })
		},
		func() error {
			return t.eachWaiting(ctx, p.Routed, func(_ settleplan.Row, w waitingDoc) error { return remove(ctx, t.waiting, w.ID) })
		},
		func() error {
			return t.eachWaiting(ctx, p.Bury, func(r settleplan.Row, w waitingDoc) error { return t.buryWaiting(ctx, r, w, req.Node) })
		},
		func() error {
			return t.eachWaiting(ctx, p.Schedule, func(_ settleplan.Row, w waitingDoc) error { return t.schedule(ctx, w) })
		},
		func() error {
			return t.eachWaiting(ctx, p.Retry, func(r settleplan.Row, w waitingDoc) error { return t.retry(ctx, r, w, req.Node) })
		},
		func() error { return each(p.Promote, func(u settleplan.Unit) error { return t.promote(ctx, u) }) },
	}
	return each(steps, func(step func() error) error { return step() })
}

func each[T any](list []T, do func(T) error) error {
	for _, v := range list {
		if err := do(v); err != nil {
			return err
		}
	}
	return nil
}

// eachWaiting calls do for each row of a step that is still there.
func (t *tx) eachWaiting(ctx context.Context, rows []settleplan.Row, do func(settleplan.Row, waitingDoc) error) error {
	return each(rows, func(r settleplan.Row) error {
		w, found, err := findOne[waitingDoc](ctx, t.waiting, bson.M{"_id": placeOf(r.Position, r.Destination)})
		if err != nil || !found {
			return err
		}
		return do(r, w)
	})
}

// published takes rows out of the outbox, by few commands for all of them.
func (t *tx) published(ctx context.Context, list []contract.Settlement, archive bool) error {
	if len(list) == 0 {
		return nil
	}
	positions := make([]int64, len(list))
	destinations := make(map[int64]string, len(list))
	for i, st := range list {
		positions[i] = st.Claim.Position
		destinations[st.Claim.Position] = st.Claim.Destination
	}
	these := bson.M{"_id": in(positions)}
	if archive {
		rows, err := find[readyDoc](ctx, t.outbox, these, sorted("_id"))
		if err != nil {
			return err
		}
		docs := make([]archiveDoc, len(rows))
		for i, r := range rows {
			r.Row.Destination = destinations[r.ID]
			docs[i] = archiveDoc{ID: bson.NewObjectID(), Row: r.Row, PublishedAt: t.now}
		}
		if err := insertAll(ctx, t.archive, docs); err != nil {
			return err
		}
	}
	_, err := t.outbox.DeleteMany(ctx, these)
	return err
}

func (t *tx) done(ctx context.Context, w waitingDoc, archive bool) error {
	if err := remove(ctx, t.waiting, w.ID); err != nil || !archive {
		return err
	}
	id := bson.NewObjectID()
	return save(ctx, t.archive, id, archiveDoc{ID: id, Row: w.Row, Attempts: w.Attempts, PublishedAt: t.now})
}

// park moves rows from the outbox to the waiting rows.
func (t *tx) park(ctx context.Context, rows []settleplan.Row, node string) error {
	if len(rows) == 0 {
		return nil
	}
	positions := make([]int64, len(rows))
	for i, r := range rows {
		positions[i] = r.Position
	}
	these := bson.M{"_id": in(positions)}
	docs, err := find[readyDoc](ctx, t.outbox, these)
	if err != nil {
		return err
	}
	if _, err := t.outbox.DeleteMany(ctx, these); err != nil {
		return err
	}
	from := make(map[int64]rowDoc, len(docs))
	for _, d := range docs {
		from[d.ID] = d.Row
	}
	return each(rows, func(r settleplan.Row) error {
		row, ok := from[r.Position]
		if !ok {
			return nil
		}
		return t.parkOne(ctx, r, row, node)
	})
}

func (t *tx) parkOne(ctx context.Context, r settleplan.Row, row rowDoc, node string) error {
	waits, err := t.waitsFor(ctx, &row.Message, r.Destination)
	if waits || err != nil {
		return err
	}
	w := waitingOf(row, r.Destination)
	w.Alone, w.Attempts, w.Life, w.Error = r.Alone, r.Attempts, r.Life, r.Error
	if w.DueAt, err = t.dueAfter(ctx, r, &w); err != nil {
		return err
	}
	if r.Attempts > 0 {
		w.FirstFailed = t.now
		w.History = tried(nil, t.now, node, r.Took, r.Error)
	}
	return save(ctx, t.waiting, w.ID, w)
}

// dueAfter returns when a row is due, nil if it is behind something in its unit.
func (t *tx) dueAfter(ctx context.Context, r settleplan.Row, w *waitingDoc) (*time.Time, error) {
	if r.Behind {
		return nil, nil
	}
	if !r.Alone {
		behind, err := t.waitsBefore(ctx, w.Row.unit(), w.Row.Position)
		if behind || err != nil {
			return nil, err
		}
	}
	due := t.now.Add(r.After)
	return &due, nil
}

func (t *tx) waitsFor(ctx context.Context, m *messageDoc, destination string) (bool, error) {
	filter := ofMessage(m)
	filter["row.destination"] = destination
	return exists(ctx, t.waiting, filter)
}

func (t *tx) follow(ctx context.Context, r settleplan.Row) error {
	w, found, err := findOne[waitingDoc](ctx, t.waiting, bson.M{"_id": placeOf(r.Position, r.Destination)})
	if err != nil || !found {
		return err
	}
	waits, err := t.waitsFor(ctx, &w.Row.Message, r.Follower)
	if waits || err != nil {
		return err
	}
	f := waitingOf(w.Row, r.Follower)
	if f.Row.Key == "" {
		f.DueAt = &t.now
	}
	return save(ctx, t.waiting, f.ID, f)
}

func (t *tx) schedule(ctx context.Context, w waitingDoc) error {
	if err := remove(ctx, t.waiting, w.ID); err != nil {
		return err
	}
	return save(ctx, t.scheduled, w.Row.Position, readyDoc{w.Row.Position, w.Row})
}

func (t *tx) retry(ctx context.Context, r settleplan.Row, w waitingDoc, node string) (err error) {
	if r.Behind && r.Error == "" && w.DueAt == nil {
		return nil // is behind already
	}
	if r.Attempts > w.Attempts {
		w.History = tried(w.History, t.now, node, r.Took, r.Error)
	}
	if w.DueAt, err = t.dueAfter(ctx, r, &w); err != nil {
		return err
	}
	w.Alone, w.Attempts, w.Life = r.Alone, r.Attempts, r.Life
	if !r.Behind || r.Error != "" {
		w.Error = r.Error
	}
	if r.Attempts > 0 {
		w.FirstFailed = orNow(w.FirstFailed, t.now)
	}
	return save(ctx, t.waiting, w.ID, w)
}

func (t *tx) buryWaiting(ctx context.Context, r settleplan.Row, w waitingDoc, node string) error {
	if err := remove(ctx, t.waiting, w.ID); err != nil {
		return err
	}
	if r.Attempts > w.Attempts {
		w.History = tried(w.History, t.now, node, r.Took, r.Error)
	}
	return t.bury(ctx, w, r)
}

// bury makes a row a dead letter.
func (t *tx) bury(ctx context.Context, w waitingDoc, r settleplan.Row) error {
	return t.addLetter(ctx, letterDoc{ID: w.Letter, Row: w.Row, Letter: deadletter.Letter{
		Origin: deadletter.FromRelay, Destination: w.Row.Destination, Reason: r.Reason, Error: r.Error,
		Attempts: r.Attempts, Requeues: w.Life, Failed: r.Failed, Parks: r.Parks, State: deadletter.Open, Replay: w.Replay,
		Fingerprint: deadletter.Fingerprint(deadletter.FromRelay, w.Row.Topic, w.Row.Message.Type, r.Error),
		FirstFailed: orNow(w.FirstFailed, t.now), LastFailed: t.now, History: w.History,
	}})
}

// addLetter stores a letter under the number that it had, or, if that is 0, under the next.
func (t *tx) addLetter(ctx context.Context, l letterDoc) (err error) {
	if l.ID == 0 {
		if l.ID, _, err = t.draw(ctx, counterLetter, 1); err != nil {
			return err
		}
	}
	l.Number = l.ID
	return save(ctx, t.letters, l.ID, l)
}
