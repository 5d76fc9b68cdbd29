package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/relay"
)

// aheadRangeSQL returns the first position above one and the last one, of some lanes. Served by the
// primary key.
const aheadRangeSQL = `
SELECT min((SELECT o.position FROM {outbox} o WHERE o.lane = l.lane AND o.position > $2 ORDER BY o.position LIMIT 1)),
       max((SELECT o.position FROM {outbox} o WHERE o.lane = l.lane ORDER BY o.position DESC LIMIT 1))
  FROM unnest($1::int[]) AS l(lane)`

// claimAheadSQL reads what was never tried of other tenants than some ($5), between two positions ($2
// and $3), but not what has an earlier row of its key that stays behind. That is looked for from the
// beginning of the lane, in the same snapshot: whoever had to wait for a transaction that committed
// late is not visible without it. Served by the primary key.
const claimAheadSQL = `
WITH rows AS (
    SELECT o.*
      FROM unnest($1::int[]) AS l(lane)
     CROSS JOIN LATERAL (
        SELECT * FROM {outbox} o
         WHERE o.lane = l.lane AND o.position > $2 AND o.position <= $3 AND o.tenant NOT IN (SELECT unnest($5::text[])) AND o.` + notHeld + `
           AND (o.key = '' OR NOT EXISTS (
                SELECT 1 FROM {outbox} e
                 WHERE e.lane = o.lane AND e.position < o.position AND e.topic = o.topic AND e.key = o.key
                   AND (e.position <= $2 OR e.tenant IN (SELECT unnest($5::text[]))) AND e.` + notHeld + `))
         ORDER BY o.position LIMIT (SELECT $6::bigint)) o
     ORDER BY o.position
     LIMIT $6
)
SELECT o.lane, o.position, '', 0, 0, false,
       CASE WHEN o.deliver_at > (SELECT {clock}()) THEN extract(epoch FROM o.deliver_at - (SELECT {clock}())) * 1000 END::float8,
       extract(epoch FROM o.expires_at - (SELECT {clock}()))::float8 * 1000, {o.message}
  FROM rows o
 ORDER BY o.position`

// ClaimAhead implements [relay.AheadSource] with two statements, and one more if there are keys of which
// the store does not know that nothing of them waits. The cursors of claims stay where they are.
func (s *Store[Tx]) ClaimAhead(ctx context.Context, req relay.AheadRequest) (claims []relay.Claim, reached int64, err error) {
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

func (c *claimer[Tx]) claimAhead(ctx context.Context, req relay.AheadRequest) ([]relay.Claim, int64, error) {
	numbers := column(req.Lanes, func(l relay.Lane) int { return l.Number })
	rows, err := c.conn.Query(ctx, c.sql.aheadRange, numbers, req.Above)
	upTo, err := sqlstore.AheadEnd(req, rows, err)
	if err != nil || upTo <= req.Above {
		return []relay.Claim{}, req.Above, err
	}
	claims, err := c.readAhead(ctx, req, numbers, upTo)
	if err == nil {
		err = c.markBlocked(ctx, claims)
	}
	return claims, req.Reached(claims, upTo), err
}

func (c *claimer[Tx]) readAhead(ctx context.Context, req relay.AheadRequest, numbers []int, upTo int64) ([]relay.Claim, error) {
	ctx, stop := c.stoppable(ctx)
	defer stop()
	rows, err := c.conn.Query(ctx, c.sql.claimAhead, numbers, req.Above, upTo, append([]int64{}, req.Held...), req.Without, req.Limit)
	return sqlstore.NewClaimScanner(req.Lanes).Read([]relay.Claim{}, req.Bytes, stop, rows, err)
}
