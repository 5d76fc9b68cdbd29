package pgstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// ClaimAhead implements [contract.AheadSource] with two statements, one more if there are keys, and one more
// unless the store knows that nothing waits for any of them. The cursors of claims stay where they are.
func (s *engine[Tx]) ClaimAhead(ctx context.Context, req contract.AheadRequest) (claims []contract.Claim, reached int64, err error) {
	select {
	case s.claiming <- struct{}{}:
		defer func() { <-s.claiming }()
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	err = s.db.run(ctx, func(conn sqldb.Conn) error {
		c := claimer[Tx]{engine: s, conn: conn}
		claims, reached, err = c.claimAhead(ctx, req)
		return err
	})
	if err != nil {
		return nil, 0, s.core.Kind(fmt.Errorf("claim messages ahead: %w", err))
	}
	s.sleeper.found(len(claims), time.Now())
	return claims, reached, nil
}

func (c *claimer[Tx]) claimAhead(ctx context.Context, req contract.AheadRequest) ([]contract.Claim, int64, error) {
	numbers, epochs := numbersAndEpochs(req.Lanes)
	rows, err := c.conn.Query(ctx, c.sql.AheadRange, numbers, req.Above)
	upTo, err := sqlstore.AheadEnd(req, rows, err)
	if err != nil || upTo <= req.Above {
		return []contract.Claim{}, req.Above, err
	}
	claims, err := c.readAhead(ctx, req, numbers, epochs, upTo)
	if err != nil {
		return nil, 0, err
	}
	reached := req.Reached(claims, upTo)
	if claims, err = c.withoutPassing(ctx, req, claims); err == nil {
		err = c.markBlocked(ctx, claims)
	}
	return claims, reached, err
}

// withoutPassing leaves out the claims that have an earlier row of their key which stays behind.
func (c *claimer[Tx]) withoutPassing(ctx context.Context, req contract.AheadRequest, claims []contract.Claim) ([]contract.Claim, error) {
	keyed := slices.DeleteFunc(slices.Clone(claims), func(c contract.Claim) bool { return c.Message.Key == "" })
	if len(keyed) == 0 {
		return claims, nil
	}
	lanes := slices.Compact(slices.Sorted(slices.Values(column(keyed, func(c contract.Claim) int { return c.Lane.Number }))))
	rows, err := c.conn.Query(ctx, c.sql.StaysAhead, lanes, req.Above, keyed[len(keyed)-1].Position, append([]int64{}, req.Held...), req.Without,
		column(keyed, func(c contract.Claim) string { return c.Message.Address() }), column(keyed, func(c contract.Claim) string { return c.Message.Key }))
	first := make(map[[2]string]int64)
	_, err = sqldb.Collect(rows, err, func(rows sqldb.Rows) (unit [2]string, err error) {
		var position int64
		err = rows.Scan(&unit[0], &unit[1], &position)
		first[unit] = position
		return unit, err
	})
	return slices.DeleteFunc(claims, func(c contract.Claim) bool {
		position, stays := first[[2]string{c.Message.Address(), c.Message.Key}]
		return stays && position < c.Position
	}), err
}

func (c *claimer[Tx]) readAhead(ctx context.Context, req contract.AheadRequest, numbers []int, epochs []int64, upTo int64) ([]contract.Claim, error) {
	ctx, stop := c.stoppable(ctx)
	defer stop()
	rows, err := c.conn.Query(ctx, c.sql.ClaimAhead, numbers, req.Above, upTo, append([]int64{}, req.Held...), req.Without, req.Limit, epochs)
	return newClaimScanner(req.Lanes).Read([]contract.Claim{}, req.Bytes, stop, rows, err)
}
