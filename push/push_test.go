package push

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/guarantee"
)

func newHub(t *testing.T, cfg Config) *Hub {
	t.Helper()
	if cfg.Authorize == nil {
		cfg.Authorize = func(*http.Request) (Grant, error) { return Grant{Topics: []string{"orders"}}, nil }
	}
	cfg.Log = slog.New(slog.DiscardHandler)
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func message(id string, headers ...string) *waybill.Message {
	m := &waybill.Message{ID: id, Type: "order.created", Topic: "orders", Payload: []byte("payload of " + id)}
	for i := 0; i < len(headers); i += 2 {
		if m.Headers == nil {
			m.Headers = make(map[string]string)
		}
		m.Headers[headers[i]] = headers[i+1]
	}
	return m
}

// client is served in a bubble of testing/synctest and keeps what it receives.
type client struct {
	*testing.T
	Connection
	cancel context.CancelFunc
	err    error // why it was disconnected, once done is closed
	done   chan struct{}

	mu     sync.Mutex
	events []Event
	stuck  bool // Send does not return before its context ends
}

func connect(t *testing.T, h *Hub, c Connection) *client {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	if c.Grant.Topics == nil {
		c.Grant.Topics = []string{"orders"}
	}
	cl := &client{T: t, Connection: c, cancel: cancel, done: make(chan struct{})}
	cl.Send = cl.take
	go func() {
		defer close(cl.done)
		cl.err = h.Serve(ctx, cl.Connection)
	}()
	synctest.Wait()
	return cl
}

func (c *client) take(ctx context.Context, e Event) error {
	c.mu.Lock()
	stuck := c.stuck
	if !stuck {
		c.events = append(c.events, e)
	}
	c.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (c *client) block() { c.mu.Lock(); c.stuck = true; c.mu.Unlock() }

// got returns what the client received, idle events left out: "+" for connected, "!reason" for a
// reset, and the ids of messages.
func (c *client) got() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, e := range c.events {
		switch e.Kind {
		case ConnectedEvent:
			list = append(list, "+")
		case ResetEvent:
			list = append(list, "!"+e.Reason)
		case MessageEvent:
			list = append(list, e.Message.ID)
		}
	}
	return strings.Join(list, " ")
}

func (c *client) want(want string) {
	c.Helper()
	if got := c.got(); got != want {
		c.Errorf("the client received %q, want %q", got, want)
	}
}

// ended waits until the client is disconnected, and wants to know why.
func (c *client) ended(want error) {
	c.Helper()
	<-c.done
	if !errors.Is(c.err, want) {
		c.Errorf("Serve() = %v, want %v", c.err, want)
	}
}

// leave disconnects a client.
func (c *client) leave() { c.cancel(); <-c.done }

func pushAll(t *testing.T, h *Hub, msgs ...*waybill.Message) {
	t.Helper()
	for _, m := range msgs {
		if err := h.Push(m); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConfig_Refuses(t *testing.T) {
	t.Parallel()
	grant := func(*http.Request) (Grant, error) { return Grant{}, nil }
	for _, tt := range []struct {
		field string
		bad   Config
		good  Config
	}{
		{"Authorize", Config{}, Config{Authorize: grant}},
		{"CatchUpLimit", Config{Authorize: grant, CatchUpLimit: 100_001}, Config{Authorize: grant, CatchUpLimit: 100_000}},
		{"CatchUpLimit", Config{Authorize: grant, CatchUpLimit: -1}, Config{Authorize: grant, CatchUpLimit: 1}},
		{"Buffer", Config{Authorize: grant, Buffer: 65_537}, Config{Authorize: grant, Buffer: 65_536}},
		{"Buffer", Config{Authorize: grant, Buffer: -1}, Config{Authorize: grant, Buffer: 1}},
		{"MaxClients", Config{Authorize: grant, MaxClients: -1}, Config{Authorize: grant, MaxClients: 1}},
		{"CatchUpAge", Config{Authorize: grant, CatchUpAge: time.Millisecond - 1}, Config{Authorize: grant, CatchUpAge: time.Millisecond}},
		{"WriteTimeout", Config{Authorize: grant, WriteTimeout: -1}, Config{Authorize: grant, WriteTimeout: time.Second}},
		{"Heartbeat", Config{Authorize: grant, Heartbeat: -1}, Config{Authorize: grant, Heartbeat: time.Second}},
		{"Retry", Config{Authorize: grant, Retry: -1}, Config{Authorize: grant, Retry: time.Second}},
		{"AllowedOrigins[0]", Config{Authorize: grant, AllowedOrigins: []string{"app.example.com"}}, Config{Authorize: grant, AllowedOrigins: []string{"https://app.example.com"}}},
		{"AllowedOrigins[0]", Config{Authorize: grant, AllowedOrigins: []string{"https://app.example.com/"}}, Config{Authorize: grant, AllowedOrigins: []string{"https://app.example.com:8443"}}},
	} {
		var invalid *waybill.InvalidError
		if _, err := New(tt.bad); !errors.As(err, &invalid) || invalid.Field != "push."+tt.field {
			t.Errorf("New() = %v, want an error that names %s", err, tt.field)
		}
		if _, err := New(tt.good); err != nil {
			t.Errorf("New() with a good %s = %v", tt.field, err)
		}
	}
}

func TestPush_Targets(t *testing.T) {
	t.Parallel()
	orders := []string{"orders"}
	ann := Connection{ID: "a", Grant: Grant{User: "ann", Topics: orders, Groups: []string{"admins", "all"}}}
	for _, tt := range []struct {
		name    string
		message *waybill.Message
		to      Connection
		gets    bool
	}{
		{"no header", message("1"), ann, true},
		{"another topic", message("1"), Connection{Grant: Grant{User: "ann", Topics: []string{"stock"}}}, false},
		{"another tenant", &waybill.Message{ID: "1", Topic: "orders", Tenant: "acme"}, ann, false},
		{"its tenant", &waybill.Message{ID: "1", Topic: "orders", Tenant: "acme"}, Connection{Grant: Grant{Tenant: "acme", Topics: orders}}, true},
		{"a destination", &waybill.Message{ID: "1", To: "orders"}, ann, true},
		{"its user among others", message("1", HeaderUsers, "bob, ann"), ann, true},
		{"another user", message("1", HeaderUsers, "anna"), ann, false},
		{"its user and another topic", message("1", HeaderUsers, "ann"), Connection{Grant: Grant{User: "ann", Topics: []string{"stock"}}}, false},
		{"one of its groups", message("1", HeaderGroups, "admins"), ann, true},
		{"another group", message("1", HeaderGroups, "guests"), ann, false},
		{"another user and its group", message("1", HeaderUsers, "bob", HeaderGroups, "all"), ann, true},
		{"its connection", message("1", HeaderConnections, "b,a"), ann, true},
		{"another connection", message("1", HeaderConnections, "b"), ann, false},
		{"excluded", message("1", HeaderExclude, "a"), ann, false},
		{"its user, and excluded", message("1", HeaderUsers, "ann", HeaderExclude, "a"), ann, false},
		{"another one excluded", message("1", HeaderExclude, "b"), ann, true},
		{"an empty list of users is nobody", message("1", HeaderUsers, ""), ann, false},
		{"an empty list of groups is nobody", message("1", HeaderGroups, " , "), ann, false},
		{"no user is not the empty user", message("1", HeaderUsers, ","), Connection{Grant: Grant{Topics: orders}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHub(t, Config{})
				c := connect(t, h, tt.to)
				pushAll(t, h, tt.message)
				if tt.gets {
					c.want("+ 1")
				} else {
					c.want("+")
				}
				c.leave()
			})
		})
	}
}

func TestPush_TargetOfConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, Config{Target: func(m *waybill.Message) Target { return Target{Users: []string{m.Subject}} }})
		ann := connect(t, h, Connection{Grant: Grant{User: "ann"}})
		bob := connect(t, h, Connection{Grant: Grant{User: "bob"}})
		m := message("1")
		m.Subject = "bob"
		pushAll(t, h, m)
		ann.want("+")
		bob.want("+ 1")
		ann.leave()
		bob.leave()
	})
}

// One message that Target cannot judge takes no other with it, when it is pushed and when it is caught
// up with.
func TestPush_TargetPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archive{}
		h := newHub(t, Config{Archive: a, Target: func(m *waybill.Message) Target {
			if m.ID == "bad" {
				panic("no idea")
			}
			return Target{Everyone: true}
		}})
		live := connect(t, h, Connection{})
		results := h.Send(t.Context(), []contract.Outgoing{{Message: message("1")}, {Message: message("bad")}, {Message: message("2")}})()
		if results[0] != nil || !waybill.IsPermanent(results[1]) || results[2] != nil {
			t.Errorf("Send() = %v, want one permanent error for the second message", results)
		}
		live.want("+ 1 2")
		live.leave()

		a.add(message("1"), message("bad"), message("2"))
		late := connect(t, h, Connection{LastEventID: "1"})
		late.want("+ 1 2") // 1 is within the overlap
		late.leave()
	})
}

// What is pushed belongs to whom it came from, who may use it again.
func TestPush_Copies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, Config{})
		c := connect(t, h, Connection{})
		m := message("1")
		pushAll(t, h, m)
		copy(m.Payload, "XXXXXXX")
		c.want("+ 1")
		if got := string(c.events[1].Message.Payload); got != "payload of 1" {
			t.Errorf("the payload became %q", got)
		}
		c.leave()
	})
}

func TestSend_IsBestEffort(t *testing.T) {
	t.Parallel()
	h := newHub(t, Config{})
	out := []contract.Outgoing{{Message: message("1")}, {Message: message("2")}}
	if got := h.Send(t.Context(), out)(); !slices.Equal(got, []error{nil, nil}) {
		t.Errorf("Send() without clients = %v, want success", got)
	}
	facts, err := h.Explain(t.Context(), "orders")
	if err != nil || len(facts) == 0 {
		t.Fatalf("Explain() = %v, %v", facts, err)
	}
	for _, f := range facts {
		if f.About == guarantee.Durability && f.Survives != guarantee.Nothing {
			t.Errorf("it says that messages survive: %+v", f)
		}
	}
	if !strings.Contains(facts[0].Means, "best effort") {
		t.Errorf("the first fact is %q", facts[0].Means)
	}
	if c := h.Capabilities(); c.DeadLetters || c.Transactions || c.DedupWindow != 0 {
		t.Errorf("Capabilities() = %+v", c)
	}
	_ = h.Close()
	for _, err := range h.Send(t.Context(), out)() {
		if !waybill.IsUnavailable(err) || !errors.Is(err, ErrClosed) {
			t.Errorf("Send() after Close = %v, want unavailable", err)
		}
	}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, Config{})
		c := connect(t, h, Connection{})
		if err := Handler[struct{}](h)(t.Context(), struct{}{}, message("1")); err != nil {
			t.Error(err)
		}
		c.want("+ 1")
		c.leave()
	})
}

func TestServe_Ends(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(h *Hub, c *client)
		want error
	}{
		{"the client is gone", func(_ *Hub, c *client) { c.cancel() }, context.Canceled},
		{"closed", func(h *Hub, _ *client) { _ = h.Close(); _ = h.Close() }, ErrClosed},
		{"disconnected", func(h *Hub, c *client) {
			if n := h.Disconnect("bob"); n != 0 {
				c.Errorf("Disconnect(bob) = %d", n)
			}
			if n := h.Disconnect("ann"); n != 1 {
				c.Errorf("Disconnect(ann) = %d", n)
			}
		}, ErrRevoked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
				h := newHub(t, Config{})
				c := connect(t, h, Connection{Grant: Grant{User: "ann"}})
				if n := h.Stats().Clients; n != 1 {
					t.Errorf("%d clients are connected, want 1", n)
				}
				tt.end(h, c)
				c.ended(tt.want)
				if n := h.Stats().Clients; n != 0 {
					t.Errorf("%d clients are connected, want none", n)
				}
			})
		})
	}
}

func TestServe_GrantExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, Config{})
		began := time.Now()
		c := connect(t, h, Connection{Grant: Grant{Expires: began.Add(time.Minute)}})
		c.ended(ErrExpired)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it was disconnected after %v", took)
		}
	})
}

func TestServe_MaxClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, Config{MaxClients: 1})
		first := connect(t, h, Connection{})
		connect(t, h, Connection{}).ended(ErrFull)
		first.leave()
		second := connect(t, h, Connection{})
		second.want("+")
		second.leave()
	})
}

func TestServe_Heartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, Config{Heartbeat: 20 * time.Second})
		c := connect(t, h, Connection{})
		idle := func() (n int) {
			synctest.Wait()
			for _, e := range c.events {
				if e.Kind == IdleEvent {
					n++
				}
			}
			return n
		}
		time.Sleep(19 * time.Second)
		pushAll(t, h, message("1"))
		time.Sleep(19 * time.Second)
		if n := idle(); n != 0 {
			t.Errorf("%d heartbeats 19 seconds after a message", n)
		}
		time.Sleep(time.Second)
		if n := idle(); n != 1 {
			t.Errorf("%d heartbeats after 20 idle seconds, want 1", n)
		}
		c.leave()
	})
}
