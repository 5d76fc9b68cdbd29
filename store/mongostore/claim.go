package mongostore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/settleplan"
)

// ClaimMessages implements [contract.Source]. Every claim reads its lanes from the beginning, so
// it finds what was committed late, too.
func (s *Store) ClaimMessages(ctx context.Context, req contract.ClaimRequest) (claims []contract.Claim, err error) {
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		claims = []contract.Claim{}
		if req.Lanes, err = t.current(ctx, req.Lanes); err != nil {
			return err
		}
		if req.Due {
			if claims, err = t.claimWaiting(ctx, req); err != nil {
				return err
			}
		}
		if req.DueOnly || req.Full(claims) {
			return nil
		}
		req.Limit, req.Bytes = req.Limit-len(claims), req.Left(claims)
		ready, err := t.claimReady(ctx, req)
		claims = append(claims, ready...)
		return err
	})
	return claims, err
}

// claimWaiting returns the waiting rows that may go: those that are due, and behind one that
// has not failed since it was let go the rest of its unit.
func (t *tx) claimWaiting(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	positions, places := heldWaiting(req)
	rows, err := findUntil(ctx, t.waiting, req.Bytes, waitingDoc.size, bson.M{
		"row.lane": in(numbersOf(req.Lanes)), "due_at": bson.M{"$lte": t.now}, "_id": places,
		"row.position": positions, "row.destination": bson.M{"$nin": orEmpty(req.Paused)},
	}, sorted("row.position").SetLimit(int64(req.Limit)))
	if err != nil {
		return nil, err
	}
	read := make(map[settleplan.Unit]int64) // up to where each unit was read
	for _, head := range slices.Clone(rows) {
		u := head.Row.unit()
		if head.Row.Position < read[u] { // what is behind it is behind the one before it, too
			continue
		}
		behind, end, err := t.followers(ctx, head, req)
		if err != nil {
			return nil, err
		}
		rows, read[u] = append(rows, behind...), end
	}
	slices.SortFunc(rows, func(a, b waitingDoc) int {
		return cmp.Or(cmp.Compare(a.Row.Position, b.Row.Position), cmp.Compare(a.Row.Destination, b.Row.Destination))
	})
	rows = slices.CompactFunc(rows, func(a, b waitingDoc) bool { return a.ID == b.ID })
	claims := []contract.Claim{}
	for _, w := range rows {
		if req.Full(claims) {
			break
		}
		c := t.claim(&w.Row, req.Lanes)
		c.Waiting, c.Destination, c.Attempts, c.Life = true, w.Row.Destination, w.Attempts, w.Life
		claims = append(claims, c)
	}
	return claims, nil
}

// heldWaiting returns the conditions that keep out waiting rows that the caller holds.
func heldWaiting(req contract.ClaimRequest) (positions, ids bson.M) {
	held, rows := req.HeldWaiting() // rows as placeOf names them
	return bson.M{"$nin": held}, bson.M{"$nin": rows}
}

// followers returns the rows that go along with one that is due: the rest of its unit, up to a letter that parks
// it or a row that waits for its own time, unless the row has failed, is alone, or is not the first that waits. end is the position of that one,
// the highest there is if there is none, and 0 if the unit was not read.
func (t *tx) followers(ctx context.Context, head waitingDoc, req contract.ClaimRequest) (behind []waitingDoc, end int64, err error) {
	u := head.Row.unit()
	if head.Attempts > 0 || head.Alone || u.Key == "" {
		return nil, 0, nil
	}
	if end, err = t.parkedFrom(ctx, u); err != nil {
		return nil, 0, err
	}
	positions, places := heldWaiting(req)
	filter := queueOf(u)
	filter["row.position"] = bson.M{"$ne": head.Row.Position, "$lte": end}
	filter["$or"] = bson.A{bson.M{"due_at": bson.M{"$ne": nil}}, bson.M{"row.position": positions, "_id": places}, bson.M{"row.position": bson.M{"$lt": head.Row.Position}}}
	rest, err := findUntil(ctx, t.waiting, req.Bytes, waitingDoc.size, filter, sorted("row.position").SetLimit(int64(req.Limit)))
	if err != nil || len(rest) > 0 && rest[0].Row.Position < head.Row.Position {
		return nil, 0, err
	}
	for _, f := range rest {
		switch {
		case f.DueAt == nil:
			behind = append(behind, f)
		case f.Attempts > 0, f.DueAt.After(t.now):
			return behind, f.Row.Position, nil
		}
	}
	return behind, end, nil
}

func (t *tx) claimReady(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	rows, err := t.readyRows(ctx, req)
	if err != nil {
		return nil, err
	}
	return t.readyClaims(ctx, rows, req.Lanes)
}

func (t *tx) readyClaims(ctx context.Context, rows []readyDoc, lanes []contract.Lane) ([]contract.Claim, error) {
	blocked, err := t.blockedKeys(ctx, rows)
	if err != nil {
		return nil, err
	}
	claims := make([]contract.Claim, len(rows))
	for i, r := range rows {
		c := t.claim(&r.Row, lanes)
		c.Blocked = blocked[[2]string{r.Row.Topic, r.Row.Key}]
		c.DelayFor = max(0, c.Message.DeliverAt.Sub(t.now))
		claims[i] = c
	}
	return claims, nil
}

// readyRows returns rows of the outbox, lane by lane in the order given: with one command if
// that does not come to a limit, else with one for each lane until one is reached.
func (t *tx) readyRows(ctx context.Context, req contract.ClaimRequest) ([]readyDoc, error) {
	rows, full, err := t.rowsOf(ctx, numbersOf(req.Lanes), req, nil)
	if err != nil {
		return nil, err
	}
	if !full {
		turn := make(map[int]int, len(req.Lanes))
		for i, l := range req.Lanes {
			turn[l.Number] = i
		}
		slices.SortStableFunc(rows, func(a, b readyDoc) int { return cmp.Compare(turn[a.Row.Lane], turn[b.Row.Lane]) })
		return rows, nil
	}
	rows, full = nil, false
	for _, l := range req.Lanes {
		if rows, full, err = t.rowsOf(ctx, []int{l.Number}, req, rows); err != nil || full {
			break
		}
	}
	return rows, err
}

// rowsOf appends rows of lanes to others, and reports whether they come to a limit of the request.
func (t *tx) rowsOf(ctx context.Context, lanes []int, req contract.ClaimRequest, before []readyDoc) (rows []readyDoc, full bool, err error) {
	bytes := req.Bytes
	for _, r := range before {
		bytes -= r.size()
	}
	filter := bson.M{"row.lane": in(lanes), "_id": bson.M{"$nin": orEmpty(req.Held)}}
	rows, err = findUntil(ctx, t.outbox, bytes, readyDoc.size, filter, sorted("_id").SetLimit(int64(req.Limit-len(before))))
	for _, r := range rows {
		bytes -= r.size()
	}
	rows = append(before, rows...)
	return rows, len(rows) >= req.Limit || req.Bytes > 0 && bytes <= 0, err
}

func (d readyDoc) size() int   { return len(d.Row.Message.Payload) }
func (d waitingDoc) size() int { return len(d.Row.Message.Payload) }

func (t *tx) claim(r *rowDoc, lanes []contract.Lane) contract.Claim {
	i := slices.IndexFunc(lanes, func(l contract.Lane) bool { return l.Number == r.Lane })
	c := contract.Claim{Message: r.Message.message(), Lane: lanes[i], Position: r.Position}
	if expires := c.Message.ExpiresAt; !expires.IsZero() {
		c.ExpiresIn = max(0, expires.Sub(t.now))
		c.Expired = c.ExpiresIn == 0
	}
	return c
}

// ReleaseScheduled implements [contract.Source]. A message whose id an open transaction is just
// enqueuing fails with a conflict at once: then the messages go one by one, around such.
func (s *Store) ReleaseScheduled(ctx context.Context, limit int) (released int, err error) {
	if released, err = s.releaseBehind(ctx, 0, limit); !waybill.IsConflict(err) {
		return released, err
	}
	for held := 0; released+held < limit; {
		n, err := s.releaseBehind(ctx, held, 1)
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

// releaseBehind moves up to limit messages that are due, but for the first ones. It waits for no
// other transaction.
func (s *Store) releaseBehind(ctx context.Context, first, limit int) (released int, err error) {
	once := func(error) bool { return false }
	err = s.repeat(ctx, once, func(ctx context.Context, t *tx) error {
		due, err := find[readyDoc](ctx, s.scheduled, bson.M{"row.message.deliver_at": bson.M{"$lte": micros(t.now)}},
			sorted("row.message.deliver_at", "_id").SetSkip(int64(first)).SetLimit(int64(limit)))
		if err != nil || len(due) == 0 {
			return err
		}
		position, _, err := s.draw(ctx, counterPosition, len(due))
		if err != nil {
			return err
		}
		for i, d := range due {
			if err := t.release(ctx, d, position+int64(i)); err != nil {
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

// release puts a scheduled row back into the outbox at a new position, unless its identity is on
// its way: then it becomes a dead letter.
func (t *tx) release(ctx context.Context, d readyDoc, position int64) error {
	if err := remove(ctx, t.scheduled, d.ID); err != nil {
		return err
	}
	taken, err := exists(ctx, t.outbox, ofMessage(&d.Row.Message))
	if err == nil && !taken {
		taken, err = exists(ctx, t.waiting, ofMessage(&d.Row.Message))
	}
	if err != nil {
		return err
	}
	if taken {
		return t.bury(ctx, waitingDoc{Row: d.Row}, settleplan.Row{
			Reason: waybill.ReasonDuplicateID, Error: "a message with this id was on its way when this one was due"})
	}
	d.ID, d.Row.Position = position, position
	return save(ctx, t.outbox, d.ID, d)
}

// MaintainArchive implements [contract.Source].
func (s *Store) MaintainArchive(ctx context.Context, req contract.MaintainRequest) (done contract.Maintained, err error) {
	if req.Retention <= 0 {
		return done, nil
	}
	now, err := serverTime(ctx, s.db, &s.cfg)
	if err != nil {
		return done, wrap("read the server's clock", err)
	}
	limit := now.Add(-req.Retention)
	if done.Rows, err = removeOld(ctx, s.archive, "published_at", limit, req.BatchSize); err != nil {
		return done, wrap("clean the archive", err)
	}
	n, err := removeOld(ctx, s.ids, "at", limit, req.BatchSize)
	done.Rows += n
	return done, wrap("forget ids", err)
}

// removeOld removes, in batches, what has a time in a field that is not after the limit.
func removeOld(ctx context.Context, c *mongo.Collection, field string, limit time.Time, batch int) (removed int64, err error) {
	for {
		ids, err := idsOf(ctx, c, bson.M{field: bson.M{"$lte": limit}}, batch)
		if err != nil || len(ids) == 0 {
			return removed, err
		}
		done, err := c.DeleteMany(ctx, bson.M{"_id": in(ids)})
		if err != nil {
			return removed, err
		}
		removed += done.DeletedCount
	}
}
