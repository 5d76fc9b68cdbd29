package brokertest

import (
	"context"
	"slices"
	"sync"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// outbox is a [contract.Source] in memory with one lane and one relay. It does no more than a relay
// needs whose messages are either published or dead-lettered.
type outbox struct {
	more func() waybill.Message // makes new messages while all unsettled ones are claimed; nil for none

	mu       sync.Mutex
	messages []waybill.Message             // at position i+1
	outcomes map[int64]contract.Settlement // by position
}

var _ contract.Source = (*outbox)(nil)

func newOutbox(msgs []waybill.Message) *outbox {
	return &outbox{messages: msgs, outcomes: make(map[int64]contract.Settlement)}
}

// settled returns the outcomes of messages that were not published, and how many were published.
func (o *outbox) settled() (others []contract.Settlement, published int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, st := range o.outcomes {
		if st.Outcome == contract.Published {
			published++
		} else {
			others = append(others, st)
		}
	}
	return others, published
}

func (o *outbox) RenewLanes(context.Context, contract.LeaseRequest) (contract.Lease, error) {
	return contract.Lease{Lanes: []contract.Lane{{}}, Share: 1, Total: 1}, nil
}

func (o *outbox) LeaveLanes(context.Context, string) error { return nil }

func (o *outbox) ClaimMessages(_ context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	claims := o.unclaimed(req)
	if len(claims) == 0 && len(o.outcomes) < len(o.messages) && o.more != nil {
		o.messages = append(o.messages, o.more())
		claims = o.unclaimed(req)
	}
	return claims, nil
}

// unclaimed returns what may be claimed. The lock is held.
func (o *outbox) unclaimed(req contract.ClaimRequest) (claims []contract.Claim) {
	for i := range o.messages {
		position := int64(i + 1)
		_, held := slices.BinarySearch(req.Held, position)
		_, settled := o.outcomes[position]
		if !held && !settled && len(claims) < req.Limit {
			claims = append(claims, contract.Claim{Message: o.messages[i].Clone(), Lane: req.Lanes[0], Position: position})
		}
	}
	return claims
}

func (o *outbox) SettleMessages(_ context.Context, req contract.SettleRequest) (lost []int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, st := range req.Settlements {
		o.outcomes[st.Claim.Position] = st
	}
	return nil, nil
}

func (o *outbox) CountParked(context.Context, []contract.Lane) (keys, messages int, err error) {
	return 0, 0, nil
}

func (o *outbox) ReleaseScheduled(context.Context, int) (int, error) { return 0, nil }

func (o *outbox) MaintainArchive(context.Context, contract.MaintainRequest) (contract.Maintained, error) {
	return contract.Maintained{}, nil
}

// AwaitMessages waits for the poll: nothing is added.
func (o *outbox) AwaitMessages(ctx context.Context, _ string) error {
	<-ctx.Done()
	return nil
}
