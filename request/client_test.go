package request

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/observe"
)

// withoutReplies is a broker that cannot receive them.
type withoutReplies struct{}

func (withoutReplies) Publisher() contract.Publisher { return nil }

func TestNewClient_Refused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		broker Broker
		cfg    Config
		field  string
	}{
		{"no broker", nil, Config{Source: "shop"}, "broker"},
		{"broker without replies", withoutReplies{}, Config{Source: "shop"}, "broker"},
		{"no source", newFake(nil), Config{}, "request.Config.Source"},
		{"long source", newFake(nil), Config{Source: strings.Repeat("s", waybill.MaxSourceLen+1)}, "request.Config.Source"},
		{"negative timeout", newFake(nil), Config{Source: "shop", Timeout: -1}, "request.Config.Timeout"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := NewClient(tt.broker, tt.cfg)
			var invalid *waybill.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != tt.field {
				t.Errorf("NewClient() = %v, want an InvalidError about %s", err, tt.field)
			}
		})
	}
}

// TestClient_Request has replies come in the reverse order of the requests.
func TestClient_Request(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFake(func(contract.Outgoing) error { return nil })
		c, _ := start(t, b, Config{})
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				id := fmt.Sprint("r", i)
				reply, err := c.Request(t.Context(), ask(id))
				if err != nil || string(reply.Payload) != "to "+id {
					t.Errorf("Request(%s) = %q, %v; want the reply to it", id, reply.Payload, err)
				}
			})
		}
		synctest.Wait()
		sent := b.attempts()
		for i := len(sent) - 1; i >= 0; i-- {
			b.replies <- replyTo(sent[i].Message, "to "+sent[i].ID)
		}
		wg.Wait()
		m := sent[0].Message
		if to, ok := AddressOf(m); !ok || to != c.address {
			t.Errorf("a request asks for the reply at %q, want %q", to, c.address)
		}
		if want := time.Now().Add(30 * time.Second).UTC(); m.Source != "shop" || !m.ExpiresAt.Equal(want) {
			t.Errorf("Source %q, ExpiresAt %v; want shop and %v", m.Source, m.ExpiresAt, want)
		}
	})
}

func TestClient_Timeout(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		timeout time.Duration // Config.Timeout
		context time.Duration // deadline of the context, if any
		want    time.Duration
	}{
		{"default", 0, 0, 30 * time.Second},
		{"configured", time.Minute, 0, time.Minute},
		{"context ends earlier", 0, time.Second, time.Second},
		{"context ends later", 0, time.Hour, time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newFake(func(contract.Outgoing) error { return nil })
				seen := new(events)
				c, _ := start(t, b, Config{Timeout: tt.timeout, Observer: seen})
				ctx := t.Context()
				if tt.context > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.context)
					defer cancel()
				}
				began := time.Now()
				_, err := c.Request(ctx, ask("r1"))
				if !errors.Is(err, ErrTimeout) || time.Since(began) != tt.want {
					t.Errorf("Request() = %v after %v, want ErrTimeout after %v", err, time.Since(began), tt.want)
				}
				late := replyTo(b.attempts()[0].Message, "late")
				b.replies <- late
				synctest.Wait()
				list := seen.all()
				if len(list) != 1 || list[0].Op != observe.OpLateReply || list[0].IDs[0] != late.ID || list[0].Name != "shop" || list[0].Count != 1 {
					t.Errorf("observed %+v, want one late reply, %s", list, late.ID)
				}
				if n := b.acks(); n != 1 {
					t.Errorf("%d late replies were acknowledged, want 1", n)
				}
			})
		})
	}
}

// TestClient_ReplyTwice drops the second of two replies.
func TestClient_ReplyTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFake(nil)
		b.send = func(o contract.Outgoing) error {
			b.replies <- replyTo(o.Message, "first")
			b.replies <- replyTo(o.Message, "second")
			return nil
		}
		seen := new(events)
		c, _ := start(t, b, Config{Observer: seen})
		reply, err := c.Request(t.Context(), ask("r1"))
		if err != nil || string(reply.Payload) != "first" {
			t.Errorf("Request() = %q, %v; want the first reply", reply.Payload, err)
		}
		synctest.Wait()
		if list := seen.all(); len(list) != 1 || b.acks() != 2 {
			t.Errorf("observed %+v, %d acknowledged; want one late reply and two acknowledged", list, b.acks())
		}
	})
}

// TestClient_BrokerAway publishes again while the broker is away, as long as somebody waits.
func TestClient_BrokerAway(t *testing.T) {
	t.Parallel()
	away := waybill.UnavailableError(errors.New("no connection"))
	synctest.Test(t, func(t *testing.T) {
		b := newFake(nil)
		back := time.Now().Add(10 * time.Second)
		b.send = func(o contract.Outgoing) error {
			if time.Now().Before(back) {
				return away
			}
			b.replies <- replyTo(o.Message, "here")
			return nil
		}
		c, _ := start(t, b, Config{})
		if reply, err := c.Request(t.Context(), ask("r1")); err != nil || string(reply.Payload) != "here" {
			t.Errorf("Request() = %q, %v; want the reply after the outage", reply.Payload, err)
		}
		for i, o := range b.attempts() {
			if o.Resent != (i > 0) || o.ID != "r1" || o.DedupID != b.attempts()[0].DedupID {
				t.Errorf("attempt %d has Resent %v, id %s, DedupID %s", i+1, o.Resent, o.ID, o.DedupID)
			}
		}

		back = time.Now().Add(time.Hour)
		_, err := c.Request(t.Context(), ask("r2"))
		if !errors.Is(err, ErrTimeout) || !errors.Is(err, away) {
			t.Errorf("Request() = %v, want ErrTimeout, and why", err)
		}
		synctest.Wait()
		n := len(b.attempts())
		time.Sleep(time.Minute)
		if more := len(b.attempts()); more != n {
			t.Errorf("%d more attempts when nobody waited any more", more-n)
		}
	})
}

func TestClient_Refused(t *testing.T) {
	t.Parallel()
	never := waybill.PermanentError(waybill.ReasonUnroutable, errors.New("no queue"))
	synctest.Test(t, func(t *testing.T) {
		b := newFake(func(contract.Outgoing) error { return never })
		c, _ := start(t, b, Config{})
		began := time.Now()
		if _, err := c.Request(t.Context(), ask("r1")); !errors.Is(err, never) || time.Since(began) != 0 {
			t.Errorf("Request() = %v after %v, want the refusal at once", err, time.Since(began))
		}
		later := ask("r2")
		later.DeliverAt = time.Now().Add(time.Hour)
		for name, m := range map[string]waybill.Message{"no address": {ID: "r3"}, "scheduled": later} {
			var invalid *waybill.InvalidError
			if _, err := c.Request(t.Context(), m); !errors.As(err, &invalid) {
				t.Errorf("%s: Request() = %v, want an InvalidError", name, err)
			}
		}
	})
}

func TestClient_SameID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFake(func(contract.Outgoing) error { return nil })
		c, _ := start(t, b, Config{})
		go func() { _, _ = c.Request(t.Context(), ask("r1")) }()
		synctest.Wait()
		var invalid *waybill.InvalidError
		if _, err := c.Request(t.Context(), ask("r1")); !errors.As(err, &invalid) || invalid.Field != "ID" {
			t.Errorf("Request() = %v, want an InvalidError about ID", err)
		}
		time.Sleep(time.Minute)
	})
}

func TestClient_Cancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := start(t, newFake(func(contract.Outgoing) error { return nil }), Config{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(moment, cancel)
		if _, err := c.Request(ctx, ask("r1")); !errors.Is(err, context.Canceled) || errors.Is(err, ErrTimeout) {
			t.Errorf("Request() = %v, want context.Canceled", err)
		}
	})
}

func TestClient_Stopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, stop := start(t, newFake(func(contract.Outgoing) error { return nil }), Config{})
		time.AfterFunc(moment, stop)
		for _, when := range []string{"while it waits", "after the end"} {
			if _, err := c.Request(t.Context(), ask("r1")); !errors.Is(err, ErrStopped) {
				t.Errorf("Request() %s = %v, want ErrStopped", when, err)
			}
		}
		if err := c.Run(t.Context()); err == nil {
			t.Error("Run() = nil the second time, want an error")
		}
	})
}

// TestClient_RunWaits opens the reply destination when the broker is back. Requests wait for it.
func TestClient_RunWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFake(func(contract.Outgoing) error { return nil })
		b.opening = waybill.UnavailableError(errors.New("no connection"))
		c, _ := start(t, b, Config{})
		if _, err := c.Request(t.Context(), ask("r1")); !errors.Is(err, ErrTimeout) {
			t.Errorf("Request() without a broker = %v, want ErrTimeout", err)
		}
		if n := len(b.attempts()); n > 0 {
			t.Errorf("%d requests were published without a reply destination", n)
		}
	})
	refused := errors.New("not with these rights")
	b := newFake(nil)
	b.opening = refused
	c, err := NewClient(b, Config{Source: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context()); !errors.Is(err, refused) {
		t.Errorf("Run() = %v, want %v", err, refused)
	}
}
