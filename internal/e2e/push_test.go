package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/guarantee"
	"github.com/waybill-go/waybill/push"
	"github.com/waybill-go/waybill/relay"
)

// TestSlowClientCatchesUp (AS-72) has two processes that push what they consume under groups of their
// own. A client of the first stops reading, so that its buffer fills and it is disconnected; it
// connects to the second with the id of its last event, and gets all that it has missed from the
// archive. Nobody else notices, and nothing calls a pushed message durable.
//
//test:sessions
func TestSlowClientCatchesUp(t *testing.T) {
	t.Parallel()
	const count = 40
	w, b := plainWorld(t), membroker.New()
	first, firstURL := w.pushes(t, b, "push-1", 4)
	_, secondURL := w.pushes(t, b, "push-2", 128)
	r, err := relay.New(w.store, b.Publisher(), quick(relay.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, t.Context(), r.Run)()

	slow := dialEvents(t, firstURL, "")
	quickOne := dialEvents(t, secondURL, "")
	w.enqueue(t, waybill.Message{ID: "m0", Topic: "orders", Payload: []byte("{}")})
	slow.readUntil(1)
	large := numbered("m", "orders", count)[1:]
	for i := range large {
		large[i].Payload = []byte(strings.Repeat("x", 160<<10))
	}
	w.enqueue(t, large...)
	eventually(t, "the slow client is disconnected", func() bool { return first.Stats().Slow == 1 && first.Stats().Clients == 0 })
	quickOne.readUntil(count)
	slow.readUntil(count) // what its socket still has
	if n := len(slow.ids); n == count {
		t.Fatal("the slow client has missed nothing")
	}

	eventually(t, "the archive has them all", func() bool {
		return w.number(t, "SELECT count(*) FROM "+w.table("outbox_archive")) == count
	})
	again := dialEvents(t, secondURL, slow.last)
	for id := range slow.ids {
		again.ids[id] = true
	}
	again.readUntil(count)
	for i := range count {
		if id := fmt.Sprint("m", i); !again.ids[id] {
			t.Errorf("%s is lost", id)
		}
	}
	facts, err := first.Explain(t.Context(), "orders")
	for _, f := range facts {
		if err != nil || f.About == guarantee.Durability && f.Survives != guarantee.Nothing {
			t.Errorf("pushed messages are called durable: %+v, %v", f, err)
		}
	}
}

// pushes runs a process that consumes under a group of its own and pushes to its clients.
func (w *world) pushes(t *testing.T, b *membroker.Broker, group string, buffer int) (*push.Hub, string) {
	t.Helper()
	hub, err := push.New(push.Config{
		Authorize: func(*http.Request) (push.Grant, error) { return push.Grant{Topics: []string{"orders"}}, nil },
		Archive:   w.store, Buffer: buffer,
	})
	if err != nil {
		t.Fatal(err)
	}
	sub := consumer.Subscription{Group: group, Topics: []string{"orders"}}
	c, err := consumer.New(b, sub, w.store, push.Handler[pgx.Tx](hub), quickConsumer(consumer.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, t.Context(), c.Run)
	server := httptest.NewServer(hub)
	t.Cleanup(func() {
		stop()
		_ = hub.Close()
		server.Close()
	})
	return hub, server.URL
}

// eventClient reads Server-Sent Events from a connection on demand.
type eventClient struct {
	*testing.T
	lines *bufio.Scanner
	last  string // the id of the last event that is complete
	ids   map[string]bool
}

func dialEvents(t *testing.T, url, last string) *eventClient {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	// HTTP 1.0 has no chunks between the lines.
	fmt.Fprintf(conn, "GET / HTTP/1.0\r\nHost: 127.0.0.1\r\nLast-Event-ID: %s\r\n\r\n", last)
	c := &eventClient{T: t, lines: bufio.NewScanner(conn), ids: make(map[string]bool)}
	c.lines.Buffer(nil, 1<<20)
	c.readUntil(0)
	return c
}

// readUntil reads events until the client has that number of ids, or the connection ends; 0: until the
// first event, which says that it is connected.
func (c *eventClient) readUntil(ids int) {
	c.Helper()
	id := ""
	for (ids == 0 || len(c.ids) < ids) && c.lines.Scan() {
		line := c.lines.Text()
		switch value, isID := strings.CutPrefix(line, "id: "); {
		case isID:
			id = value
		case line == "event: connected" && ids == 0:
			return
		case line == "event: reset":
			c.Fatal("the client received a reset")
		case line == "" && id != "":
			c.last = id
			if strings.HasPrefix(id, "m") {
				c.ids[id] = true
			}
			id = ""
		}
	}
}
