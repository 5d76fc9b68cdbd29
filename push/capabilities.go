package push

import (
	"context"

	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/guarantee"
)

var (
	_ contract.Publisher = (*Hub)(nil)
	_ broker.Explainer   = (*Hub)(nil)
)

// Capabilities returns what a hub can do, best effort: each connected client is a separate
// receiver, and gets messages in the order in which they are pushed.
func (h *Hub) Capabilities() broker.Capabilities {
	return broker.Capabilities{Fanout: true, Order: broker.OneReplica}
}

// Explain implements [broker.Explainer]. The facts are the same for every topic.
func (h *Hub) Explain(context.Context, string) ([]guarantee.Fact, error) {
	catchUp := guarantee.Fact{
		About: guarantee.Durability, Setting: "Archive", Value: "none", Survives: guarantee.Nothing,
		Means:    "a client that was cut off receives a reset",
		Stronger: "Archive: the store of the service that enqueues",
	}
	if h.cfg.Archive != nil {
		catchUp.Value, catchUp.Stronger = "set", ""
		catchUp.Means = "a client that says its last event catches up from the archive, or receives a reset"
	}
	return []guarantee.Fact{
		{
			About: guarantee.Durability, Survives: guarantee.Nothing,
			Means: "best effort: a message goes to the clients connected to this process at that moment, if any, and is never durable",
		},
		catchUp,
		{About: guarantee.Order, Means: "a client gets messages in the order of pushing; those that it catches up in that of publishing"},
		{About: guarantee.Duplicates, Means: "a message pushed twice arrives twice, and a client that catches up gets some again; their ids tell"},
	}, nil
}
