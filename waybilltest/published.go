package waybilltest

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// recorder is a publisher that remembers what was published.
type recorder struct {
	inner contract.Publisher

	mu        sync.Mutex
	published []waybill.Message
}

// Send implements [contract.Publisher]. A topic without a consumer is no error.
func (r *recorder) Send(ctx context.Context, msgs []contract.Outgoing) (wait func() []error) {
	inner := r.inner.Send(ctx, msgs)
	return func() []error {
		results := inner()
		for i := range results {
			if results[i] = ignoreUnroutable(results[i]); results[i] == nil {
				r.add(msgs[i].Message)
			}
		}
		return results
	}
}

func ignoreUnroutable(err error) error {
	if waybill.ReasonOf(err) == waybill.ReasonUnroutable {
		return nil
	}
	return err
}

func (r *recorder) add(m *waybill.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := m.Clone()
	kept.Payload = append([]byte{}, m.Payload...) // the relay's must not be retained
	r.published = append(r.published, kept)
}

func (r *recorder) count() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(len(r.published))
}

// find returns the latest message with the given id.
func (r *recorder) find(id string) (waybill.Message, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.published) - 1; i >= 0; i-- {
		if r.published[i].ID == id {
			return r.published[i].Clone(), true
		}
	}
	return waybill.Message{}, false
}

// Messages waits as [Kit.Wait] does and returns what was published to a topic, or sent to a
// destination of that name, in that order. A message that the relay has published twice is included
// twice; copies by [Kit.Redeliver] are not included.
func (k *Kit) Messages(topic string) []waybill.Message {
	k.t.Helper()
	k.Wait()
	k.recorder.mu.Lock()
	defer k.recorder.mu.Unlock()
	var list []waybill.Message
	for i := range k.recorder.published {
		if m := &k.recorder.published[i]; m.Address() == topic {
			list = append(list, m.Clone())
		}
	}
	return list
}

// Published returns the events that were published to a topic, decoded from JSON, otherwise like
// [Kit.Messages]. It fails the test if one of them does not decode.
func Published[T any](t testing.TB, k *Kit, topic string) []T {
	t.Helper()
	var events []T
	for _, m := range k.Messages(topic) {
		var event T
		if err := json.Unmarshal(m.Payload, &event); err != nil {
			t.Fatalf("waybilltest: message %s in topic %q does not decode as %T: %v", m.ID, topic, event, err)
		}
		events = append(events, event)
	}
	return events
}
