package membroker

import (
	"context"

	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/guarantee"
)

var _ broker.Explainer = (*Broker)(nil)

// Explain implements [broker.Explainer].
func (b *Broker) Explain(context.Context, string) ([]guarantee.Fact, error) {
	return []guarantee.Fact{{About: guarantee.Durability, Survives: guarantee.Nothing,
		Means: "everything ends with the process; for tests"}}, nil
}
