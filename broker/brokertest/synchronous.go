package brokertest

import (
	"time"

	"github.com/waybill-go/waybill"
)

// synchronous lists the tests that a broker must pass that stores nothing. In the others messages
// wait in the broker.
var synchronous = []string{
	"message with every field",
	"message with few fields",
	"structured content mode",
	"payloads of any bytes",
	"headers of any text",
	"message at the limits",
	"idempotency key in a header",
	"message without an id",
	"message with a broken attribute",
	"empty batch",
	"500 messages of one key",
	"deadline already passed",
	"publisher closed",
	"retry with a delay",
	"retry at once",
	"extended while worked on",
	"subscription without a group",
	"broker reachable and closed",
}

// keepSending sends msgs concurrently with the test, which acknowledges them, and repeats those
// that are to be retried, as a relay does. The test does not end before all are accepted.
func (e *env) keepSending(msgs []waybill.Message) {
	ctx, ended := e.context(), make(chan struct{})
	e.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		for len(msgs) > 0 {
			var left []waybill.Message
			var longest time.Duration
			for i, err := range e.broker.Publisher().Send(ctx, e.outgoing(msgs))() {
				wait, asked := waybill.AfterOf(err)
				switch {
				case asked:
					left, longest = append(left, msgs[i]), max(longest, wait)
				case err != nil:
					e.Errorf("message %d of %d: %v, want it accepted in the end", i+1, len(msgs), err)
				}
			}
			msgs = left
			select {
			case <-time.After(longest):
			case <-ctx.Done():
				e.Errorf("%d messages were not accepted", len(msgs))
				return
			}
		}
	}()
}
