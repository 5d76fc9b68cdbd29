package redisbroker

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"

	"github.com/waybill-go/waybill"
)

// TestPublishError_TimeUp: a message that is not answered in time may have arrived, also where the client does
// not say what it was doing; one for which no connection was made has not.
func TestPublishError_TimeUp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err    error
		unsure bool
	}{
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true},
		{os.ErrDeadlineExceeded, true},
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, false},
	} {
		got := publishError(tt.err)
		if !waybill.IsUnavailable(got) || errors.Is(got, context.DeadlineExceeded) != tt.unsure {
			t.Errorf("publishError(%v) = %v, unavailable: %v; want it to be the deadline: %v", tt.err, got, waybill.IsUnavailable(got), tt.unsure)
		}
	}
}
