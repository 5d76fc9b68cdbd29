package relay

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

func (r *run) settle(cmd relaycore.Settle) {
	req := SettleRequest{Node: r.cfg.Node, Archive: r.cfg.Retention != KeepNothing, Settlements: make([]Settlement, len(cmd.Settlements))}
	for i := range cmd.Settlements {
		req.Settlements[i] = settlementOf(&cmd.Settlements[i])
	}
	began := time.Now()
	lost, err := call(r.work, &r.limits.settle, func(ctx context.Context) ([]int, error) {
		return r.src.SettleMessages(ctx, req)
	})
	switch {
	case err == nil:
		r.handle(relaycore.Settled{Lost: lost, Took: time.Since(began)})
	case r.work.Err() == nil:
		r.handle(relaycore.SettleFailed{Refused: refusesRows(err), Err: err})
	}
}

func claimOf(m *relaycore.Message) *Claim { return m.Tag.(*Claim) }

// settlementOf returns what the store is told of an outcome. The payload of a message that is not going
// to be sent is dropped: the store has it.
func settlementOf(st *relaycore.Settlement) Settlement {
	c := claimOf(st.Message)
	c.Destination = st.Message.Dest
	if st.Message.Deferred {
		c.Message.Payload = nil
	}
	return Settlement{
		Claim: c, Outcome: Outcome(st.Outcome), After: st.After, Behind: st.Behind, Alone: st.Alone, Park: st.Park,
		Attempts: st.Attempts, Life: st.Life, Reason: st.Reason, Error: waybill.ErrorText(st.Err), Took: st.Took, Destinations: st.To,
	}
}

// refusesRows reports whether a settlement failed for what is in it, and not because the store
// could not be asked or met somebody else.
func refusesRows(err error) bool {
	kind := waybill.KindOf(err)
	return kind != waybill.Unavailable && kind != waybill.Conflict && !errors.Is(err, context.DeadlineExceeded)
}
