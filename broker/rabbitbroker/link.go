package rabbitbroker

import (
	"context"

	"github.com/waybill-go/waybill"
)

// link is a connection that is established when it is needed, and re-established after
// it was lost.
type link struct {
	broker *Broker
	name   string // shown in the server's list of connections

	turn chan struct{} // holds one value, except while somebody uses what is below
	conn *conn
}

func newLink(b *Broker, name string) link {
	l := link{broker: b, name: name, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l
}

// take waits for the caller's turn.
func (l *link) take(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return waybill.UnavailableError(err)
	}
	select {
	case <-l.turn:
		return nil
	case <-ctx.Done():
		return waybill.UnavailableError(context.Cause(ctx))
	}
}

func (l *link) release() { l.turn <- struct{}{} }

// connect returns the connection. The caller must have its turn.
func (l *link) connect(ctx context.Context) (_ *conn, err error) {
	if l.conn == nil || l.conn.IsClosed() {
		l.drop()
		l.conn, err = l.broker.dial(ctx, l.name)
	}
	return l.conn, err
}

// drop drops the connection. The caller must have its turn.
func (l *link) drop() {
	if l.conn != nil {
		l.broker.forget(l.conn)
		l.conn.cut()
		l.conn = nil
	}
}

// get takes a turn and returns the connection.
func (l *link) get(ctx context.Context) (*conn, error) {
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	defer l.release()
	return l.connect(ctx)
}
