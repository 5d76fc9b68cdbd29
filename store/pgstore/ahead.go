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

// aheadRangeSQL returns the first position above one and the last one, of some lanes. Served by the
// primary key.
const aheadRangeSQL = `
SELECT (SELECT o.position FROM {outbox} o WHERE o.lane = ANY($1::int[]) AND o.position > $2 ORDER BY o.position LIMIT 1),
       (SELECT o.position FROM {outbox} o WHERE o.lane = ANY($1::int[]) ORDER BY o.position DESC LIMIT 1)`

// claimAheadSQL reads what was never tried of other tenants than some ($5), between two positions ($2
// and $3). Served by the primary key; the limit comes through a sub-select, as in claimPageSQL.
const claimAheadSQL = `
SELECT o.lane, o.position, '', 0, 0, false,
       CASE WHEN o.deliver_at > (SELECT {clock}()) THEN extract(epoch FROM o.deliver_at - (SELECT {clock}())) * 1000 END::float8,
       extract(epoch FROM o.expires_at - (SELECT {clock}()))::float8 * 1000, {o.message}
  FROM {outbox} o
 WHERE o.lane = ANY(ARRAY(SELECT r.lane FROM {relay_lanes} r JOIN unnest($1::int[], $7::bigint[]) AS l(lane, epoch) USING (lane, epoch)))
   AND o.position > $2 AND o.position <= $3 AND o.tenant NOT IN (SELECT unnest($5::text[])) AND o.` + notHeld + `
 ORDER BY o.position LIMIT (SELECT $6::bigint)`

// staysAheadSQL returns, of some units ($6, $7), the first row before a position ($3) that stays behind
// when what was read above another position ($2) is claimed. It looks from the beginning of the lanes ($1):
// whoever had to wait for a transaction that committed late is not visible without it, and a row leaves
// the outbox through its lane's owner only, so that a later snapshot than that of the claim will do. By
// itself, because the planner would take it for dear enough to compile, which takes longer than to run it.
const staysAheadSQL = `
SELECT o.topic, o.key, min(o.position)
  FROM {outbox} o
 WHERE o.lane = ANY($1::int[]) AND o.position < $3 AND (o.position <= $2 OR o.tenant IN (SELECT unnest($5::text[]))) AND o.` + notHeld + `
   AND (o.topic, o.key) IN (SELECT * FROM unnest($6::text[], $7::text[]))
 GROUP BY o.topic, o.key`

// ClaimAhead implements [contract.AheadSource] with two statements, one more if there are keys, and one more if
// the store does not know of each of them that nothing of it waits. The cursors of claims stay where they are.
func (s *Store[Tx]) ClaimAhead(ctx context.Context, req contract.AheadRequest) (claims []contract.Claim, reached int64, err error) {
	select {
	case s.claiming <- struct{}{}:
		defer func() { <-s.claiming }()
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	err = s.db.run(ctx, func(conn sqldb.Conn) error {
		c := claimer[Tx]{Store: s, conn: conn}
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
	rows, err := c.conn.Query(ctx, c.sql.aheadRange, numbers, req.Above)
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
	rows, err := c.conn.Query(ctx, c.sql.staysAhead, lanes, req.Above, keyed[len(keyed)-1].Position, append([]int64{}, req.Held...), req.Without,
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
	rows, err := c.conn.Query(ctx, c.sql.claimAhead, numbers, req.Above, upTo, append([]int64{}, req.Held...), req.Without, req.Limit, epochs)
	return newClaimScanner(req.Lanes).Read([]contract.Claim{}, req.Bytes, stop, rows, err)
}
