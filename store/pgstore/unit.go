package pgstore

import (
	"context"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// CountParked implements [contract.Source].
func (s *engine[Tx]) CountParked(ctx context.Context, lanes []contract.Lane) (keys, messages int, err error) {
	numbers := column(lanes, func(l contract.Lane) int { return l.Number })
	rows, err := s.core.DB.Query(ctx, s.sql.CountParked, numbers)
	_, _, err = sqldb.One(rows, err, func(r sqldb.Rows) (struct{}, error) { return struct{}{}, r.Scan(&keys, &messages) })
	return keys, messages, s.core.Kind(err)
}
