package membroker

import (
	"context"
	"sync"

	"github.com/waybill-go/waybill"
)

// Discovery connects finders and announcers of package discovery over the in-memory
// broker. It is safe for concurrent use.
type Discovery struct{ broker *Broker }

// Discovery returns the transport for package discovery.
func (b *Broker) Discovery() *Discovery { return &Discovery{b} }

// exchange passes pings and announcements on to listeners.
type exchange struct {
	mu    sync.Mutex
	boxes map[string]map[*mailbox]struct{} // by key
}

// word is one ping, answer or announcement.
type word struct {
	correlationID string
	body          []byte
	replyTo       *mailbox
}

// mailbox holds what its owner has not read yet. What does not fit is dropped.
type mailbox struct{ words chan word }

func newMailbox() *mailbox { return &mailbox{words: make(chan word, 1000)} }

func (m *mailbox) put(w word) {
	select {
	case m.words <- w:
	default:
	}
}

// open returns a mailbox for what is published under key, and a function that closes it.
func (x *exchange) open(key string) (*mailbox, func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := newMailbox()
	if x.boxes == nil {
		x.boxes = make(map[string]map[*mailbox]struct{})
	}
	if x.boxes[key] == nil {
		x.boxes[key] = make(map[*mailbox]struct{})
	}
	x.boxes[key][m] = struct{}{}
	return m, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.boxes[key], m)
	}
}

func (x *exchange) publish(key string, w word) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for m := range x.boxes[key] {
		m.put(w)
	}
}

// Ping implements the transport of package discovery.
func (d *Discovery) Ping(ctx context.Context, bus, group, correlationID string, ping []byte, hear func(correlationID string, body []byte)) error {
	if err := d.broker.Ping(ctx); err != nil {
		return err
	}
	x := &d.broker.server.discovery
	m, closed := x.open("announce." + bus + "." + group)
	defer closed()
	x.publish("ping."+bus+"."+group, word{correlationID: correlationID, body: ping, replyTo: m})
	return d.receive(ctx, m, func(w word) { hear(w.correlationID, w.body) })
}

// Listen implements the transport of package discovery.
func (d *Discovery) Listen(ctx context.Context, bus, group string, announcement []byte, answer func(correlationID string, ping []byte) []byte) error {
	if err := d.broker.Ping(ctx); err != nil {
		return err
	}
	x := &d.broker.server.discovery
	m, closed := x.open("ping." + bus + "." + group)
	defer closed()
	x.publish("announce."+bus+"."+group, word{body: announcement})
	return d.receive(ctx, m, func(w word) {
		if reply := answer(w.correlationID, w.body); reply != nil {
			w.replyTo.put(word{correlationID: w.correlationID, body: reply})
		}
	})
}

func (d *Discovery) receive(ctx context.Context, m *mailbox, take func(word)) error {
	for {
		select {
		case w := <-m.words:
			take(w)
		case <-d.broker.done:
			return waybill.UnavailableError(errClosed)
		case <-ctx.Done():
			return nil
		}
	}
}
