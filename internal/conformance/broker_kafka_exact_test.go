package conformance

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/brokertest"
	"github.com/waybill-go/waybill/broker/kafkabroker"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/guarantee"
)

// TestKafkaBroker_ExactlyOnce runs the suite with each message published as a row of an outbox, in
// transactions.
func TestKafkaBroker_ExactlyOnce(t *testing.T) {
	cfg := kafkaExactConfig(kafkaURL(t))
	rows := new(atomic.Int64)
	brokertest.Run(t, brokertest.Harness{
		Name:       "kafka, exactly-once relay",
		Features:   brokertest.Features{MaxPayload: waybill.MaxPayloadLen, Partitioned: true, LagHasMarks: true},
		Unroutable: "no such topic",
		Open: func(t *testing.T) broker.Broker {
			cfg := cfg
			// Each connection is a relay with an outbox of its own: the suite has several at a time.
			cfg.TransactionalID = "outbox-" + waybill.NewID()
			return kafkaRows{kafkaOpen(t, cfg), rows}
		},
		PublishRaw: func(t *testing.T, topic string, payload []byte, attributes map[string]string) {
			t.Helper()
			kafkaPublishRaw(t, cfg, topic, payload, attributes)
		},
		Goroutines: []string{"github.com/twmb/franz-go/pkg/kgo"},
	})
	t.Parallel() // once goroutines were counted
}

func kafkaExactConfig(url string) kafkabroker.Config {
	cfg := kafkaConfig(url)
	cfg.TransactionalID = "outbox"
	return cfg
}

// kafkaRows is a broker that takes each message that it is given for a new row of one lane.
type kafkaRows struct {
	*kafkabroker.Broker
	rows *atomic.Int64
}

func (b kafkaRows) Publisher() contract.Publisher {
	return kafkaRowPublisher{b.Broker.Publisher(), b.rows}
}

type kafkaRowPublisher struct {
	contract.Publisher
	rows *atomic.Int64
}

func (p kafkaRowPublisher) Send(ctx context.Context, msgs []contract.Outgoing) func() []error {
	msgs = slices.Clone(msgs)
	for i := range msgs {
		msgs[i].Row = contract.Row{Lane: 7, Position: p.rows.Add(1)}
	}
	return p.Publisher.Send(ctx, msgs)
}

// TestKafkaTransaction_Told has capabilities and Explain tell of the option.
func TestKafkaTransaction_Told(t *testing.T) {
	t.Parallel()
	cfg := kafkaExactConfig(kafkaURL(t))
	exact := kafkaOpen(t, cfg)
	kafkaSend(t, exact, kafkaMessages("t", 1, oneKey))
	cfg.TransactionalID = ""
	plain := kafkaOpen(t, cfg)
	if !exact.Capabilities().Transactions || plain.Capabilities().Transactions {
		t.Errorf("Transactions: %v with TransactionalID, %v without", exact.Capabilities().Transactions, plain.Capabilities().Transactions)
	}
	for b, want := range map[*kafkabroker.Broker]string{exact: "transactional.id", plain: "enable.idempotence"} {
		facts, err := b.Explain(t.Context(), "t")
		if err != nil || !slices.ContainsFunc(facts, func(f guarantee.Fact) bool { return f.Setting == want && f.About == guarantee.Duplicates }) {
			t.Errorf("Explain() = %+v, %v, want a fact about %s", facts, err, want)
		}
	}
}
