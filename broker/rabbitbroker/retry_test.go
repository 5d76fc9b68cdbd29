package rabbitbroker

import (
	"reflect"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestCopy_Headers(t *testing.T) {
	t.Parallel()
	death := func(queue string) amqp.Table { return amqp.Table{"queue": queue, "reason": "expired"} }
	for _, test := range []struct {
		name      string
		got, want amqp.Table
	}{
		{
			"first retry",
			amqp.Table{"h": "v", "CC": []any{"elsewhere"}, "x-delivery-count": int64(2)},
			amqp.Table{"h": "v", retryHeader: int32(1), exchangeHeader: "e", routingKeyHeader: "t"},
		},
		{
			"no headers",
			nil,
			amqp.Table{retryHeader: int32(1), exchangeHeader: "e", routingKeyHeader: "t"},
		},
		{
			"second retry",
			amqp.Table{
				retryHeader: int32(1), retryLeftHeader: int64(5), exchangeHeader: "first", routingKeyHeader: "first",
				"x-death": []any{death("q.retry.1000")}, "x-first-death-queue": "q.retry.1000", "x-last-death-queue": "q.retry.1000",
			},
			amqp.Table{retryHeader: int32(2), exchangeHeader: "first", routingKeyHeader: "first"},
		},
		{
			"dead-lettered by others as well",
			amqp.Table{"x-death": []any{death("q.retry.100"), death("theirs")}, "x-first-death-queue": "theirs"},
			amqp.Table{
				"x-death": []any{death("theirs")}, "x-first-death-queue": "theirs",
				retryHeader: int32(1), exchangeHeader: "e", routingKeyHeader: "t",
			},
		},
	} {
		d := &delivery{queue: "q", amqp: amqp.Delivery{Headers: test.got, Exchange: "e", RoutingKey: "t"}}
		before := len(test.got)
		if got := d.copy(d.retries()+1, 0).Headers; !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: headers are %v, want %v", test.name, got, test.want)
		}
		if len(test.got) != before {
			t.Errorf("%s: copy() changed the delivery", test.name)
		}
	}
}

func TestCopy_Left(t *testing.T) {
	t.Parallel()
	d := &delivery{queue: "q"}
	p := d.copy(3, 90*time.Minute)
	next := &delivery{amqp: amqp.Delivery{Headers: p.Headers}}
	if next.left() != 90*time.Minute || next.retries() != 3 || !next.Redelivered() {
		t.Errorf("left() = %v, retries() = %d, Redelivered() = %v, want what was asked for",
			next.left(), next.retries(), next.Redelivered())
	}
}
