package httpbroker

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/waybill-go/waybill/contract"
)

// TestReceiver_HalfSent: requests that never send the rest of their bodies keep no signed one out,
// whether they claim to be signed or not.
func TestReceiver_HalfSent(t *testing.T) {
	t.Parallel()
	for name, claim := range map[string]string{
		"unsigned": "",
		"forged":   fmt.Sprintf("Webhook-Id: x\r\nWebhook-Timestamp: %d\r\nWebhook-Signature: v1,AAAA\r\n", time.Now().Unix()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const places = 4
			r, at := receiving(t, func(c *ReceiverConfig) { c.MaxRequests = places })
			subscribed(t, r, orders, func(d contract.Delivery) { d.Ack(context.Background()) })
			for range 2 * places {
				halfSent(t, at, claim)
			}
			if resp := post(t, at, "id", time.Now(), "{}", binary); resp.StatusCode != http.StatusNoContent {
				t.Errorf("answered %d, want 204", resp.StatusCode)
			}
		})
	}
}

// halfSent sends a request without the end of its body, and returns when it is answered or the receiver
// reads it: in any case before a request that is sent then.
func halfSent(t *testing.T, at, headers string) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nExpect: 100-continue\r\n%s\r\n", headers); err != nil {
		t.Fatal(err)
	}
	// The server says "continue" when the body is read, or answers without.
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}
