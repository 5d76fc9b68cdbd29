package sqlitestore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// aheadRangeSQL returns the first position above one and the last one. Served by the primary key.
const aheadRangeSQL = `
SELECT (SELECT min(position) FROM {outbox} WHERE position > $1), (SELECT max(position) FROM {outbox})`

// claimAheadSQL reads what was never tried of other tenants than some ($4), between two positions ($1
// and $2), but not what has an earlier row of its key that stays behind. $6 is the epoch of the lane. Served by
// the primary key.
const claimAheadSQL = `
SELECT 0, o.position, '', 0, 0,
       ` + blockedSQL + `,
       CASE WHEN o.deliver_at > {now} THEN (o.deliver_at - {now}) / 1000.0 END,
       (o.expires_at - {now}) / 1000.0, {o.message}
  FROM {outbox} o
 WHERE o.position > $1 AND o.position <= $2 AND o.position NOT IN (SELECT value FROM json_each($3))` + ownsLane + `$6
   AND o.tenant NOT IN (SELECT value FROM json_each($4))
   AND (o.key = '' OR NOT EXISTS (
        SELECT 1 FROM {outbox} e
         WHERE e.position < o.position AND e.topic = o.topic AND e.key = o.key
           AND (e.position <= $1 OR e.tenant IN (SELECT value FROM json_each($4))) AND e.position NOT IN (SELECT value FROM json_each($3))))
 ORDER BY o.position
 LIMIT $5`

// ClaimAhead implements [contract.AheadSource] with two statements.
func (s *Store) ClaimAhead(ctx context.Context, req contract.AheadRequest) (claims []contract.Claim, reached int64, err error) {
	epoch, mine := epochIn(req.Lanes)
	if !mine {
		return []contract.Claim{}, req.Above, nil
	}
	rows, err := s.core.DB.Query(ctx, s.sql.aheadRange, req.Above)
	upTo, err := sqlstore.AheadEnd(req, rows, err)
	if err == nil && upTo > req.Above {
		rows, err = s.core.DB.Query(ctx, s.sql.claimAhead, req.Above, upTo, append([]int64{}, req.Held...), req.Without, req.Limit, epoch)
		claims, err = sqlstore.NewClaimScanner(req.Lanes).Read([]contract.Claim{}, req.Bytes, nil, rows, err)
	}
	if err != nil {
		return nil, 0, s.core.Kind(fmt.Errorf("claim messages ahead: %w", err))
	}
	return claims, req.Reached(claims, upTo), nil
}
