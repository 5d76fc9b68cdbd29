package sqlitestore

import (
	"context"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// ClaimMessages implements [contract.Source] with a statement, and one more if req.Due is set.
func (s *Store) ClaimMessages(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	claims := []contract.Claim{}
	epoch, mine := epochIn(req.Lanes)
	if !mine {
		return claims, nil
	}
	scanner, held := sqlstore.NewClaimScanner(req.Lanes), append([]int64{}, req.Held...)
	if req.Due {
		positions, single := req.HeldWaiting()
		rows, err := s.core.DB.Query(ctx, s.sql.ClaimWaiting, req.Limit, append([]string{}, req.Paused...), positions, single, epoch)
		if claims, err = scanner.Read(claims, req.Bytes, nil, rows, err); err != nil {
			return nil, s.core.Kind(fmt.Errorf("claim waiting messages: %w", err))
		}
	}
	for i := range claims {
		claims[i].Waiting = true
	}
	if req.Full(claims) || req.DueOnly {
		return claims, nil
	}
	rows, err := s.core.DB.Query(ctx, s.sql.ClaimReady, req.Limit-len(claims), held, epoch)
	if claims, err = scanner.Read(claims, req.Bytes, nil, rows, err); err != nil {
		return nil, s.core.Kind(fmt.Errorf("claim messages: %w", err))
	}
	return claims, nil
}

// epochIn returns the epoch of the one lane, if it is among some.
func epochIn(lanes []contract.Lane) (epoch int64, found bool) {
	i := slices.IndexFunc(lanes, func(l contract.Lane) bool { return l.Number == 0 })
	if i < 0 {
		return 0, false
	}
	return lanes[i].Epoch, true
}
