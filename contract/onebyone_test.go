package contract

import (
	"context"
	"testing"

	"github.com/waybill-go/waybill"
)

// TestPublishOneByOne_Results: one result for each message, also where the batch was not sent to its end.
func TestPublishOneByOne_Results(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	msgs := make([]Outgoing, 5)
	for i := range msgs {
		msgs[i] = Outgoing{Message: &waybill.Message{Topic: "orders", Key: "k"}}
	}
	calls := 0
	errs := PublishOneByOne(func(context.Context, Outgoing) error {
		if calls++; calls == 3 {
			cancel()
			return context.Canceled
		}
		return nil
	}).Send(ctx, msgs)()
	if len(errs) != 5 || calls != 3 || errs[1] != nil {
		t.Fatalf("%d calls and results %v, want three calls and five results", calls, errs)
	}
	for _, err := range errs[2:] {
		if !waybill.IsUnavailable(err) {
			t.Errorf("result %v, want unavailable", err)
		}
	}
}
