package rows

import (
	"cmp"
	"context"
	"slices"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/settleplan"
)

// ClaimMessages implements [contract.Source]. Every claim reads its lanes from the beginning, so it finds what was
// committed late, too. Round trips: 4, 5 with waiting messages, then 2 for each unit that waits, and 1 for each lane
// if a limit is reached.
func (e *Engine[S]) ClaimMessages(ctx context.Context, req contract.ClaimRequest) (claims []contract.Claim, err error) {
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		claims = []contract.Claim{}
		req := req
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
		rows, err := t.readyRows(ctx, req)
		if err != nil {
			return err
		}
		ready, err := t.claimReady(ctx, rows, req.Lanes)
		claims = append(claims, ready...)
		return err
	})
	return claims, err
}

// claimWaiting returns the waiting rows that may be sent: those that are due, and behind one that has not
// failed since it was released the rest of its unit.
func (t *Tx) claimWaiting(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	q := where(append(notHeld(req), waits.Lane.in(numbersOf(req.Lanes)...), waits.DueAt.atMost(t.Now), waits.Destination.notIn(req.Paused...))...).
		sorted(waits.Position.rising(), waits.Destination.rising()).first(req.Limit)
	q.Bytes = req.Bytes
	rows, err := t.Waiting.Find(ctx, q)
	if err != nil {
		return nil, err
	}
	read := make(map[settleplan.Unit]int64) // up to where each unit was read
	for _, head := range slices.Clone(rows) {
		u := head.unit()
		if head.Position < read[u] { // what is behind it is behind the one before it, too
			continue
		}
		behind, end, err := t.followers(ctx, head, req)
		if err != nil {
			return nil, err
		}
		rows, read[u] = append(rows, behind...), end
	}
	slices.SortFunc(rows, func(a, b *Waiting) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.Destination, b.Destination))
	})
	rows = slices.CompactFunc(rows, func(a, b *Waiting) bool { return a.Place() == b.Place() })
	claims := []contract.Claim{}
	for _, w := range rows {
		if req.Full(claims) {
			break
		}
		c := t.claim(&w.Row, req.Lanes)
		c.Waiting, c.Destination, c.Attempts, c.Life = true, w.Destination, w.Attempts, w.Life
		claims = append(claims, c)
	}
	return claims, nil
}

// places names a waiting row as [contract.ClaimRequest.HeldWaiting] does.
var places = column("place", func(w *Waiting) string { return w.Place().String() })

// notHeld excludes waiting rows that the caller has in flight.
func notHeld(req contract.ClaimRequest) []Condition[*Waiting] {
	positions, rows := req.HeldWaiting()
	return []Condition[*Waiting]{waits.Position.notIn(positions...), places.notIn(rows...)}
}

// followers returns the rows that are claimed along with one that is due: the rest of its unit, up to a dead
// letter that parks it or a row that waits for its own time, unless the row has failed, is alone, or is not the
// first that waits. end is the position at which they stop, the highest possible one if nothing stops them, and
// 0 if the unit was not read.
func (t *Tx) followers(ctx context.Context, head *Waiting, req contract.ClaimRequest) (behind []*Waiting, end int64, err error) {
	u := head.unit()
	if head.Attempts > 0 || head.Alone || u.Key == "" {
		return nil, 0, nil
	}
	if end, err = t.parkedFrom(ctx, u); err != nil {
		return nil, 0, err
	}
	q := queue(u, waits.Position.notIn(head.Position), waits.Position.atMost(end), anyOf(
		[]Condition[*Waiting]{waits.DueAt.some()},
		notHeld(req),
		[]Condition[*Waiting]{waits.Position.below(head.Position)},
	)).first(req.Limit)
	q.Bytes = req.Bytes
	rest, err := t.Waiting.Find(ctx, q)
	if err != nil || len(rest) > 0 && rest[0].Position < head.Position {
		return nil, 0, err
	}
	for _, f := range rest {
		switch {
		case f.DueAt.IsZero():
			behind = append(behind, f)
		case f.Attempts > 0, f.DueAt.After(t.Now):
			return behind, f.Position, nil
		}
	}
	return behind, end, nil
}

func (t *Tx) claimReady(ctx context.Context, rows []*Row, lanes []contract.Lane) ([]contract.Claim, error) {
	blocked, err := t.blocked(ctx, rows)
	if err != nil {
		return nil, err
	}
	claims := make([]contract.Claim, len(rows))
	for i, r := range rows {
		c := t.claim(r, lanes)
		c.Blocked = blocked[r.topicKey()]
		c.DelayFor = max(0, c.Message.DeliverAt.Sub(t.Now))
		claims[i] = c
	}
	return claims, nil
}

// readyRows returns rows of the outbox, lane by lane in the order given: with one query if that does not reach
// a limit, else with one for each lane until a limit is reached.
func (t *Tx) readyRows(ctx context.Context, req contract.ClaimRequest) ([]*Row, error) {
	rows, full, err := t.rowsOf(ctx, numbersOf(req.Lanes), req, nil)
	if err != nil {
		return nil, err
	}
	if !full {
		turn := make(map[int]int, len(req.Lanes))
		for i, l := range req.Lanes {
			turn[l.Number] = i
		}
		slices.SortStableFunc(rows, func(a, b *Row) int { return cmp.Compare(turn[a.Lane], turn[b.Lane]) })
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

// rowsOf appends rows of lanes to others, and reports whether they reach a limit of the request.
func (t *Tx) rowsOf(ctx context.Context, lanes []int, req contract.ClaimRequest, before []*Row) (rows []*Row, full bool, err error) {
	q := where(ready.Lane.in(lanes...), ready.Position.notIn(req.Held...)).sorted(ready.Position.rising()).first(req.Limit - len(before))
	q.Bytes = req.Bytes - payloads(before)
	rows, err = t.Outbox.Find(ctx, q)
	rows = append(before, rows...)
	return rows, len(rows) >= req.Limit || req.Bytes > 0 && payloads(rows) >= req.Bytes, err
}

func payloads(rows []*Row) int {
	sum := 0
	for _, r := range rows {
		sum += len(r.Message.Payload)
	}
	return sum
}

func (t *Tx) claim(r *Row, lanes []contract.Lane) contract.Claim {
	i := slices.IndexFunc(lanes, func(l contract.Lane) bool { return l.Number == r.Lane })
	c := contract.Claim{Message: r.Message.Clone(), Lane: lanes[i], Position: r.Position, Malformed: r.Malformed}
	if expires := c.Message.ExpiresAt; !expires.IsZero() {
		c.ExpiresIn = max(0, expires.Sub(t.Now))
		c.Expired = c.ExpiresIn == 0
	}
	return c
}

// ClaimAhead implements [contract.AheadSource]. Round trips: 7 at most.
func (e *Engine[S]) ClaimAhead(ctx context.Context, req contract.AheadRequest) (claims []contract.Claim, reached int64, err error) {
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		claims, reached = []contract.Claim{}, req.Above
		req := req
		if req.Lanes, err = t.current(ctx, req.Lanes); err != nil {
			return err
		}
		next, err := first(ctx, t.Outbox, where(ready.Position.above(req.Above)).sorted(ready.Position.rising()))
		if err != nil || next == nil {
			return err
		}
		last, err := first(ctx, t.Outbox, Query[*Row]{}.sorted(ready.Position.falling()))
		if err != nil || last == nil {
			return err
		}
		claims, reached, err = t.claimAhead(ctx, req, min(next.Position+req.Span-1, last.Position))
		return err
	})
	return claims, reached, err
}

// claimAhead claims between the position of the request and another one.
func (t *Tx) claimAhead(ctx context.Context, req contract.AheadRequest, upTo int64) ([]contract.Claim, int64, error) {
	q := where(ready.Lane.in(numbersOf(req.Lanes)...), ready.Tenant.notIn(req.Without...),
		ready.Position.above(req.Above), ready.Position.atMost(upTo), ready.Position.notIn(req.Held...)).sorted(ready.Position.rising()).first(req.Limit)
	q.Bytes = req.Bytes
	rows, err := t.Outbox.Find(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	claims, err := t.claimReady(ctx, rows, req.Lanes)
	if err != nil {
		return nil, 0, err
	}
	reached := req.Reached(claims, upTo)
	claims, err = t.withoutPassing(ctx, req, rows, claims)
	return claims, reached, err
}

// withoutPassing leaves out the claims that have an earlier row of their key which stays behind.
func (t *Tx) withoutPassing(ctx context.Context, req contract.AheadRequest, rows []*Row, claims []contract.Claim) ([]contract.Claim, error) {
	topics, keys := topicsAndKeys(rows)
	if len(keys) == 0 {
		return claims, nil
	}
	earlier, err := t.Outbox.Find(ctx, where(
		ready.Lane.in(numbersOf(req.Lanes)...), ready.Topic.in(topics...), ready.Key.in(keys...),
		ready.Position.below(claims[len(claims)-1].Position), ready.Position.notIn(req.Held...),
		anyOf([]Condition[*Row]{ready.Position.atMost(req.Above)}, []Condition[*Row]{ready.Tenant.in(req.Without...)}),
	).sorted(ready.Position.falling()).only(ready.Topic.Name, ready.Key.Name))
	if err != nil {
		return nil, err
	}
	lowest := make(map[[2]string]int64)
	for _, r := range earlier {
		lowest[r.topicKey()] = r.Position
	}
	return slices.DeleteFunc(claims, func(c contract.Claim) bool {
		position, stays := lowest[[2]string{c.Message.Address(), c.Message.Key}]
		return stays && position < c.Position
	}), nil
}
