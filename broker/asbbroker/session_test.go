package asbbroker

import (
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
)

// TestSessionID: messages of one key share a session, and those without a key do not share one.
func TestSessionID(t *testing.T) {
	t.Parallel()
	id := func(key string) string { return sessionID(&waybill.Message{ID: waybill.NewID(), Key: key}) }
	if a, b := id("a"), id("b"); a != "a" || b != "b" {
		t.Errorf("sessions of the keys a and b: %q, %q", a, b)
	}
	sessions := make(map[string]bool)
	for range 10 * keylessSessions {
		sessions[id("")] = true
	}
	if n := len(sessions); n < keylessSessions/2 || n > keylessSessions {
		t.Errorf("messages without a key are spread over %d sessions, want about %d", n, keylessSessions)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		cfg  Config
		want broker.Order
	}{
		{Config{ReceiveBatch: 1}, broker.OneReplica},
		{Config{ReceiveBatch: 2}, broker.NoOrder},
		{Config{ReceiveBatch: 2, Sessions: true}, broker.PerKey},
	} {
		if got := (&Broker{cfg: tc.cfg}).Capabilities().Order; got != tc.want {
			t.Errorf("order with %d at a time and sessions %t = %v, want %v", tc.cfg.ReceiveBatch, tc.cfg.Sessions, got, tc.want)
		}
	}
}
