package conformance

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/asbbroker"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/request"
)

// TestASBBroker_RepliesExpire: the queue is made, and has what replies need, also where a client
// declares nothing else, and whatever its other queues are like.
func TestASBBroker_RepliesExpire(t *testing.T) {
	t.Parallel()
	a := newASB(t)
	b := a.open(t, asbbroker.Config{DeclareNothing: true, Sessions: true, DuplicateWindow: time.Hour, LockDuration: time.Minute})
	receiveReplies(t, b, func(address string) bool {
		q := a.queue(t, "to/"+address)
		return q != nil && q.AutoDeleteOnIdle != nil && *q.AutoDeleteOnIdle == "PT300S" && *q.LockDuration == "PT16S" &&
			!*q.RequiresSession && !*q.RequiresDuplicateDetection
	}, func(address string) bool {
		if a.queue(t, "to/waybill-retry/"+address) != nil {
			t.Error("there is a queue for retries that nobody removes")
		}
		return a.queue(t, "to/"+address) == nil
	})
}

// queue returns a queue, nil if there is none of that name behind the test's prefix.
func (a *asb) queue(t *testing.T, name string) *admin.GetQueueResponse {
	t.Helper()
	q, err := a.admin(t).GetQueue(t.Context(), a.prefix+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// asbReplies opens a reply destination and receives from it until the test ends.
func asbReplies(t *testing.T, b *asbbroker.Broker) (address string, got <-chan contract.Delivery) {
	t.Helper()
	address, replies, err := b.OpenReplies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return address, asbReceiveFrom(t, replies, 1)
}

// TestASBBroker_RepliesRemade: the queue is recreated if it is removed under its client.
func TestASBBroker_RepliesRemade(t *testing.T) {
	t.Parallel()
	a := newASB(t)
	b := a.open(t, asbbroker.Config{DeclareNothing: true, Sessions: true})
	address, got := asbReplies(t, b)
	queue := a.prefix + "to/" + address
	expect := func(text string) {
		t.Helper()
		a.publish(t, queue, &azservicebus.Message{Body: []byte(text)})
		d, arrived := asbNext(t, got)
		if arrived != text {
			t.Errorf("got %q, want %q", arrived, text)
		}
		if err := d.Ack(t.Context()); err != nil {
			t.Errorf("Ack() = %v", err)
		}
	}
	expect("before")
	if _, err := a.admin(t).DeleteQueue(t.Context(), queue, nil); err != nil {
		t.Fatal(err)
	}
	asbEventually(t, func() bool { return a.queue(t, "to/"+address) != nil })
	expect("after")
}

// TestASBBroker_RepliesRetried: a reply that is to come again waits in its own queue.
func TestASBBroker_RepliesRetried(t *testing.T) {
	t.Parallel()
	a := newASB(t)
	b := a.open(t, asbbroker.Config{Sessions: true, DuplicateWindow: time.Minute})
	address, got := asbReplies(t, b)
	must(t, asbSend(t, b, waybill.Message{To: address, Payload: []byte("reply"), CausationID: "asked"}))
	for range 2 {
		d, text := asbNext(t, got)
		if m, _ := d.Message(); text != "reply" || m.To != address || m.CausationID != "asked" {
			t.Errorf("got %+v", m)
		}
		if err := d.Retry(t.Context(), 20*time.Millisecond); err != nil {
			t.Fatalf("Retry() = %v", err)
		}
	}
	d, _ := asbNext(t, got)
	if err := d.Ack(t.Context()); err != nil {
		t.Errorf("Ack() = %v", err)
	}
}

// TestASBBroker_RepliesBusy: only a queue that is not there makes a reply done with.
func TestASBBroker_RepliesBusy(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	b := a.open(t, asbbroker.Config{})
	address, _, err := b.OpenReplies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.fake.Refuse(1, "com.microsoft:server-busy")
	if err := asbSend(t, b, waybill.Message{To: address}); !waybill.IsUnavailable(err) {
		t.Errorf("Send() = %v of kind %v while the service is busy, want unavailable", err, waybill.KindOf(err))
	}
	if err := asbSend(t, b, waybill.Message{To: request.NewAddress()}); err != nil {
		t.Errorf("Send() = %v to a client that is gone, want nil", err)
	}
}

func TestASBBroker_RepliesPrefixTooLong(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	a.prefix = strings.Repeat("p", 209) // with "to/" and the address 262 bytes
	b := a.open(t, asbbroker.Config{})
	_, _, err := b.OpenReplies(t.Context())
	var invalid *waybill.InvalidError
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "260") {
		t.Errorf("OpenReplies() = %v, want an InvalidError with the limit", err)
	}
}

// refusal answers each request with 403.
type refusal struct{}

func (refusal) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Request: r, Header: http.Header{}}, nil
}

// TestASBBroker_RepliesWithoutRights: a key that may not manage is an error that waiting does not
// fix.
func TestASBBroker_RepliesWithoutRights(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	a.http = &http.Client{Transport: refusal{}}
	b := a.open(t, asbbroker.Config{})
	_, _, err := b.OpenReplies(t.Context())
	if !waybill.IsPermanent(err) || !strings.Contains(err.Error(), "right to manage") {
		t.Errorf("OpenReplies() = %v, want a permanent error that names the right to manage", err)
	}
}
