package mysqlstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// aheadRangeSQL returns the first position above one and the last one. Served by the primary key.
const aheadRangeSQL = `
SELECT (SELECT min(position) FROM {outbox} WHERE position > $1), (SELECT max(position) FROM {outbox})`

// claimAheadSQL reads what was never tried of other tenants than some ($5), between two positions ($2
// and $3), but not what has an earlier row of its key that stays behind: that is looked for from the
// beginning of the lane, in the same snapshot. The rows are chosen before any payload is read. Served by
// the primary key, and by the index on (lane, position).
const claimAheadSQL = `
SELECT o.lane, o.position, '', 0, 0,
       ` + blockedSQL + `,
       CASE WHEN o.deliver_at > {now} THEN (o.deliver_at - {now}) / 1000.0 END,
       (greatest(o.expires_at, 0) - {now}) / 1000.0, {o.message}
  FROM (SELECT l.position
          FROM {outbox} l
         WHERE l.position > $2 AND l.position <= $3 AND ` + ownsLaneOf + `l.lane) IN ($1) AND l.tenant NOT IN ($5) AND (l.position IN ($4)) IS NOT TRUE
           AND (l.{key} = '' OR NOT EXISTS (
                SELECT 1 FROM {outbox} e
                 WHERE e.lane = l.lane AND e.position < l.position AND e.topic = l.topic AND e.{key} = l.{key}
                   AND (e.position <= $2 OR e.tenant IN ($5)) AND (e.position IN ($4)) IS NOT TRUE))
         ORDER BY l.position
         LIMIT $6) l
  JOIN {outbox} o ON o.position = l.position
 ORDER BY o.position`

// ClaimAhead implements [contract.AheadSource] with two statements.
func (s *Store) ClaimAhead(ctx context.Context, req contract.AheadRequest) (claims []contract.Claim, reached int64, err error) {
	rows, err := s.core.DB.Query(ctx, s.sql.aheadRange, req.Above)
	upTo, err := sqlstore.AheadEnd(req, rows, err)
	if err == nil && upTo > req.Above {
		claims, err = s.readAhead(ctx, req, upTo)
	}
	if err != nil {
		return nil, 0, s.core.Kind(fmt.Errorf("claim messages ahead: %w", err))
	}
	return claims, req.Reached(claims, upTo), nil
}

func (s *Store) readAhead(ctx context.Context, req contract.AheadRequest, upTo int64) ([]contract.Claim, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	rows, err := s.core.DB.Query(ctx, s.sql.claimAhead, laneNames(req.Lanes), req.Above, upTo, req.Held, req.Without, req.Limit)
	return sqlstore.NewClaimScanner(req.Lanes).Read([]contract.Claim{}, req.Bytes, stop, rows, err)
}
