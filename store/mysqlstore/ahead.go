package mysqlstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// ClaimAhead implements [contract.AheadSource] with two statements.
func (s *Store) ClaimAhead(ctx context.Context, req contract.AheadRequest) (claims []contract.Claim, reached int64, err error) {
	rows, err := s.core.DB.Query(ctx, s.sql.AheadRange, req.Above)
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
	rows, err := s.core.DB.Query(ctx, s.sql.ClaimAhead, laneNames(req.Lanes), req.Above, upTo, req.Held, req.Without, req.Limit)
	return sqlstore.NewClaimScanner(req.Lanes).Read([]contract.Claim{}, req.Bytes, stop, rows, err)
}
