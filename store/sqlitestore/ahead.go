package sqlitestore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// ClaimAhead implements [contract.AheadSource] with two statements.
func (s *Store) ClaimAhead(ctx context.Context, req contract.AheadRequest) (claims []contract.Claim, reached int64, err error) {
	epoch, mine := epochIn(req.Lanes)
	if !mine {
		return []contract.Claim{}, req.Above, nil
	}
	rows, err := s.core.DB.Query(ctx, s.sql.AheadRange, req.Above)
	upTo, err := sqlstore.AheadEnd(req, rows, err)
	if err == nil && upTo > req.Above {
		rows, err = s.core.DB.Query(ctx, s.sql.ClaimAhead, req.Above, upTo, append([]int64{}, req.Held...), req.Without, req.Limit, epoch)
		claims, err = sqlstore.NewClaimScanner(req.Lanes).Read([]contract.Claim{}, req.Bytes, nil, rows, err)
	}
	if err != nil {
		return nil, 0, s.core.Kind(fmt.Errorf("claim messages ahead: %w", err))
	}
	return claims, req.Reached(claims, upTo), nil
}
