package e2e

import (
	"context"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/nats-io/nats.go/jetstream"
)

// everyID reads the ids of all messages that the broker holds for a group, in its own order
// and with its own client.
func (s brokerSettings) everyID(t *testing.T, name string) []string {
	t.Helper()
	want := s.stored(t, name)
	if s.Kind == "nats" {
		return s.everyStreamID(t, want)
	}
	return s.everyQueueID(t, name, want)
}

func (s brokerSettings) everyStreamID(t *testing.T, want int) (ids []string) {
	t.Helper()
	s.onStream(t, func(ctx context.Context, js jetstream.JetStream) error {
		ordered, err := js.OrderedConsumer(ctx, s.Name, jetstream.OrderedConsumerConfig{HeadersOnly: true})
		if err != nil {
			return err
		}
		for len(ids) < want {
			batch, err := ordered.Fetch(min(want-len(ids), 1000), jetstream.FetchMaxWait(patience))
			if err != nil {
				return err
			}
			before := len(ids)
			for m := range batch.Messages() {
				ids = append(ids, m.Headers().Get("ce-id"))
			}
			if batch.Error() != nil || len(ids) == before {
				t.Errorf("read %d of %d messages of the stream: %v", len(ids), want, batch.Error())
				return nil
			}
		}
		return nil
	})
	return ids
}

func (s brokerSettings) everyQueueID(t *testing.T, name string, want int) (ids []string) {
	t.Helper()
	s.onChannel(t, func(ch *amqp.Channel) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
		defer cancel()
		deliveries, err := ch.ConsumeWithContext(ctx, s.group(name), "", true, false, false, false, nil)
		if err != nil {
			return err
		}
		for len(ids) < want {
			d, open := <-deliveries
			if !open {
				t.Errorf("read %d of %d messages of the queue", len(ids), want)
				return nil
			}
			ids = append(ids, d.MessageId)
		}
		return nil
	})
	return ids
}
