package rabbitbroker

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// What waits behind is taken for a time, not for as long as something comes.
func TestFill(t *testing.T) {
	for _, test := range []struct {
		name        string
		until       time.Time
		redelivered [4]bool
		n           int
		got         int
		more        bool
	}{
		{"as many as there is room for", time.Now().Add(time.Hour), [4]bool{true, true, true, true}, 3, 3, true},
		{"up to one that was never delivered before", time.Now().Add(time.Hour), [4]bool{true, false, true, true}, 4, 2, false},
		{"until its time is up", time.Now().Add(-time.Second), [4]bool{true, true, true, true}, 4, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			deliveries := make(chan amqp.Delivery, len(test.redelivered))
			for _, redelivered := range test.redelivered {
				deliveries <- amqp.Delivery{Redelivered: redelivered}
			}
			s := &session{}
			got, more := s.fill(nil, source{deliveries: deliveries}, test.n, test.until)
			if got != test.got || more != test.more {
				t.Errorf("fill returned %d, %t; want %d, %t", got, more, test.got, test.more)
			}
		})
	}
}
