package cli

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

// unrecorded is an inbox for a consumer that pushes: it remembers nothing, because clients
// recognise by the id what they have had, and a failed message is not worth pushing late.
type unrecorded struct{}

var _ contract.Inbox[struct{}] = unrecorded{}

func (unrecorded) ProcessOnce(ctx context.Context, _ inbox.Record, fn func(context.Context, struct{}) error) (inbox.Outcome, error) {
	return inbox.Processed, fn(ctx, struct{}{})
}

func (unrecorded) FailedAttempts(context.Context, inbox.Key) (contract.Attempts, error) {
	return contract.Attempts{}, nil
}

func (unrecorded) SaveAttempt(context.Context, inbox.Key, contract.FailedAttempt) error { return nil }

func (unrecorded) SaveStarts(context.Context, inbox.Key, int) error { return nil }

// BuryMessage drops a message that cannot be pushed, which is logged.
func (unrecorded) BuryMessage(context.Context, inbox.Letter) (bool, error) { return true, nil }

func (unrecorded) TakeRequeued(context.Context, string, time.Duration) (contract.Requeued, bool, error) {
	return contract.Requeued{}, false, nil
}

func (unrecorded) RunRequeued(context.Context, contract.Requeued, string, func(context.Context, struct{}) error) (bool, error) {
	return false, nil
}
