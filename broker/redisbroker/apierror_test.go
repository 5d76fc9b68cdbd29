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

// answer is an error that Redis has answered with.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

// TestPublishError_Failover: what the servers of a Cluster, or a former master, answer costs no message an attempt.
func TestPublishError_Failover(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"MOVED 9959 127.0.0.1:7001", "ASK 9959 127.0.0.1:7001", "TRYAGAIN Multiple keys request during rehashing of slot",
		"CLUSTERDOWN Hash slot not served", "READONLY You can't write against a read only replica.",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"LOADING Redis is loading the dataset in memory", "NOREPLICAS Not enough good replicas to write.",
		"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
	} {
		if got := publishError(answer(text)); !waybill.IsUnavailable(got) {
			t.Errorf("publishError(%s) = %v, of kind %v, want unavailable", text, got, waybill.KindOf(got))
		}
	}
}
