package consumer

import (
	"context"

	"github.com/waybill-go/waybill/contract"
)

// Lag asks the broker for the backlog of this consumer; the error is [contract.ErrNoLag] if the
// subscriber is no [contract.Lagger]. It is safe for concurrent use.
func (c *receiver) Lag(ctx context.Context) (contract.Lag, error) {
	if l, ok := c.sub.(contract.Lagger); ok {
		return l.Lag(ctx)
	}
	return contract.Lag{}, contract.ErrNoLag
}
