package natsbroker

import (
	"testing"
	"time"
)

// TestPuller_Ahead: a request that was lost unseen must not count for ever, so there is an end to
// asking ahead of what is counted.
func TestPuller_Ahead(t *testing.T) {
	t.Parallel()
	certain := time.Now()
	for _, tc := range []struct {
		situation string
		room      int
		since     time.Duration
		want      bool
	}{
		{"half of the share is free", 5, 0, true},
		{"less is free", 4, 0, false},
		{"just before a request expires", 5, pullExpires - 1, true},
		{"a request could have expired", 10, pullExpires, false},
	} {
		p := &puller{share: 10, certain: certain}
		if got := p.ahead(tc.room, certain.Add(tc.since)); got != tc.want {
			t.Errorf("%s: ahead() = %v, want %v", tc.situation, got, tc.want)
		}
	}
}

func TestAckFields(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		subject              string
		deliveries, sequence uint64
	}{
		{"$JS.ACK.orders.billing.2.17.19.1700000000000000000.4", 2, 17},
		{"$JS.ACK._.hash.orders.billing.2.17.19.1700000000000000000.4", 2, 17},
		{"$JS.ACK.hub.hash.orders.billing.2.17.19.1700000000000000000.4.token", 2, 17},
		{"$JS.ACK.orders.billing.2.17", 0, 0},
		{"$JS.ACK.orders.billing.x.y.19.1700000000000000000.4", 0, 0},
	} {
		if deliveries, sequence := ackFields(tc.subject); deliveries != tc.deliveries || sequence != tc.sequence {
			t.Errorf("ackFields(%s) = %d, %d, want %d, %d", tc.subject, deliveries, sequence, tc.deliveries, tc.sequence)
		}
	}
}
