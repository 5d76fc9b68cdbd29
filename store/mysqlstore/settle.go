package mysqlstore

import (
	"context"

	"github.com/waybill-go/waybill/contract"
)

// SettleMessages implements [contract.Source].
func (s *Store) SettleMessages(ctx context.Context, req contract.SettleRequest) ([]int, error) {
	return s.relays.SettleByRow(ctx, s.sql.Settle, req)
}
