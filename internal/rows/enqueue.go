package rows

import (
	"context"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/outbox"
)

// Enqueue adds messages to the outbox and says which are new. Round trips: 2; 4 where ids are looked for, 6 where they
// are remembered.
func (t *Tx) Enqueue(ctx context.Context, b outbox.Batch) ([]bool, error) {
	isNew := make([]bool, len(b.Messages))
	if len(isNew) == 0 {
		return isNew, nil
	}
	next, now, err := t.Draw(ctx, Positions, len(isNew))
	if err != nil {
		return nil, err
	}
	t.Now = now
	if b.Fresh && !b.Remember {
		for i := range isNew {
			isNew[i] = true
		}
	} else if isNew, err = t.newAmong(ctx, b.Messages, b.Remember); err != nil {
		return nil, err
	}
	var rows []*Row
	for i := range b.Messages {
		if isNew[i] {
			rows = append(rows, NewRow(b.Messages[i].Clone(), next+int64(i), now))
		}
	}
	return isNew, t.Outbox.Add(ctx, rows...)
}

// newAmong says which messages are new, and remembers them if they are to be unique. It reads before it writes,
// because a duplicate key may end the transaction.
func (t *Tx) newAmong(ctx context.Context, msgs []waybill.Message, remember bool) ([]bool, error) {
	taken, err := t.onTheirWay(ctx, msgs)
	if err != nil {
		return nil, err
	}
	remembered := make(map[outbox.Identity]bool)
	if remember {
		identities := make([]outbox.Identity, len(msgs))
		for i := range msgs {
			identities[i] = outbox.IdentityOf(&msgs[i])
		}
		found, err := t.IDs.Get(ctx, identities...)
		if err != nil {
			return nil, err
		}
		for _, id := range found {
			remembered[id.Identity] = true
		}
	}
	var added []*ID
	isNew := make([]bool, len(msgs))
	for i := range msgs {
		id := outbox.IdentityOf(&msgs[i])
		isNew[i] = !taken[id] && !remembered[id]
		taken[id] = true
		if remember && !remembered[id] {
			remembered[id] = true
			added = append(added, &ID{id, t.Now})
		}
	}
	return isNew, t.IDs.Add(ctx, added...)
}

// onTheirWay returns which identities with the ids of messages are in the outbox or wait.
func (t *Tx) onTheirWay(ctx context.Context, msgs []waybill.Message) (map[outbox.Identity]bool, error) {
	list := make([]string, len(msgs))
	for i := range msgs {
		list[i] = msgs[i].ID
	}
	set := make(map[outbox.Identity]bool)
	pending, err := t.Outbox.Find(ctx, where(ready.MessageID.in(list...)).only(ready.MessageID.Name, ready.Source.Name, ready.Tenant.Name))
	if err != nil {
		return nil, err
	}
	for _, r := range pending {
		set[r.identity()] = true
	}
	waiting, err := t.Waiting.Find(ctx, where(waits.MessageID.in(list...)).only(waits.MessageID.Name, waits.Source.Name, waits.Tenant.Name))
	for _, w := range waiting {
		set[w.identity()] = true
	}
	return set, err
}

// Unpublished reports whether a message with an identity is in the outbox or waits. Round trips: 2 at most.
func (t *Tx) Unpublished(ctx context.Context, id outbox.Identity) (bool, error) {
	there, err := exists(ctx, t.Outbox, ready.same(id)...)
	if err == nil && !there {
		there, err = exists(ctx, t.Waiting, waits.same(id)...)
	}
	return there, err
}

// ReleaseScheduled implements [contract.Source]. Round trips: 2, and 4 for each message. A message whose id an
// open transaction is just enqueuing may be a conflict at once: then the messages are released one by one,
// around these.
func (e *Engine[S]) ReleaseScheduled(ctx context.Context, limit int) (released int, err error) {
	if released, err = e.releaseBehind(ctx, 0, limit); !waybill.IsConflict(err) {
		return released, err
	}
	for held := 0; released+held < limit; {
		n, err := e.releaseBehind(ctx, held, 1)
		switch {
		case waybill.IsConflict(err):
			held++
		case err != nil || n == 0:
			return released, err
		}
		released += n
	}
	return released, nil
}

// releaseBehind moves up to limit messages that are due, except the first ones. It waits for no other
// transaction.
func (e *Engine[S]) releaseBehind(ctx context.Context, passed, limit int) (released int, err error) {
	never := func() bool { return false }
	err = e.store.Run(ctx, never, func(ctx context.Context, t *Tx, _ S) error {
		q := where(ready.DeliverAt.atMost(micros(t.Now))).sorted(ready.DeliverAt.rising(), ready.Position.rising()).first(limit)
		q.Skip = passed
		due, err := t.Scheduled.Find(ctx, q)
		if err != nil || len(due) == 0 {
			return err
		}
		position, _, err := t.Draw(ctx, Positions, len(due))
		if err != nil {
			return err
		}
		for i, r := range due {
			if err := t.release(ctx, r, position+int64(i)); err != nil {
				return err
			}
		}
		released = len(due)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return released, nil
}

// release moves a scheduled row into the outbox at a new position, unless its identity is pending or waits:
// then it becomes a dead letter.
func (t *Tx) release(ctx context.Context, r *Row, position int64) error {
	if err := t.Scheduled.Delete(ctx, r.Position); err != nil {
		return err
	}
	taken, err := t.Unpublished(ctx, r.identity())
	if err != nil {
		return err
	}
	if taken {
		return t.bury(ctx, &Waiting{Row: *r}, settleplan.Row{Reason: waybill.ReasonDuplicateID, Error: DuplicateError})
	}
	r.Position = position
	return t.Outbox.Add(ctx, r)
}

// archiveBatch is the default number of rows that a transaction removes.
const archiveBatch = 1000

// MaintainArchive implements [contract.Source]. Round trips: 4 at most for each batch.
func (e *Engine[S]) MaintainArchive(ctx context.Context, req contract.MaintainRequest) (done contract.Maintained, err error) {
	if req.Retention <= 0 {
		return done, nil
	}
	batch := req.BatchSize
	if batch <= 0 {
		batch = archiveBatch
	}
	for {
		n, more, err := e.removeOld(ctx, req, batch)
		done.Rows += int64(n)
		if err != nil || !more {
			return done, err
		}
	}
}

// removeOld removes a batch of what was published, and one of the ids that are remembered, before the retention. There may
// be more if one of them was full.
func (e *Engine[S]) removeOld(ctx context.Context, req contract.MaintainRequest, batch int) (n int, more bool, err error) {
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		limit := t.Now.Add(-req.Retention)
		published, err := t.Archive.Find(ctx, where(archived.PublishedAt.atMost(limit)).first(batch).only(archived.PublishedAt.Name))
		if err != nil {
			return err
		}
		keys := make([]any, len(published))
		for i, a := range published {
			keys[i] = a.Key
		}
		old, err := t.IDs.Find(ctx, where(ids.At.atMost(limit)).first(batch))
		if err != nil {
			return err
		}
		identities := make([]outbox.Identity, len(old))
		for i, id := range old {
			identities[i] = id.Identity
		}
		n, more = len(keys)+len(identities), len(keys) == batch || len(identities) == batch
		if err := t.Archive.Delete(ctx, keys...); err != nil {
			return err
		}
		return t.IDs.Delete(ctx, identities...)
	})
	return n, more, err
}
