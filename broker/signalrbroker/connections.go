package signalrbroker

import (
	"context"
	"time"

	"github.com/philippseith/signalr"

	"github.com/waybill-go/waybill/push"
)

// connections notifies the hub of clients that connect and disconnect. It implements
// signalr.HubLifetimeManager; the methods that send to several clients are the hub's work.
type connections struct{ hub *push.Hub }

const (
	writeTimeout = 10 * time.Second // for writing one message to a client's socket
	closeTimeout = 2 * time.Second  // for notifying a client that it is disconnected
)

// requestOf returns the request of a connection.
func requestOf(conn signalr.HubConnection) (request, bool) {
	from, ok := conn.Context().Value(requestKey{}).(request)
	return from, ok
}

// OnConnected serves a client in the background, until its context ends. One that the hub no
// longer serves is disconnected.
func (c connections) OnConnected(conn signalr.HubConnection) {
	from, ok := requestOf(conn)
	if !ok { // cannot happen: each comes through Handler.ServeHTTP
		conn.Abort()
		return
	}
	go func() {
		defer conn.Abort()
		_ = c.hub.Serve(conn.Context(), push.Connection{ // the hub logs what matters
			ID: conn.ConnectionID(), Grant: from.grant, LastEventID: from.lastEventID,
			Send: func(ctx context.Context, e push.Event) error {
				ctx, cancel := context.WithTimeout(ctx, writeTimeout)
				defer cancel()
				// The library's writes end with the request only.
				stop := context.AfterFunc(ctx, from.end)
				defer stop()
				return send(conn, e)
			},
		})
	}()
}

// OnDisconnected gives the library a moment for its last message to the client.
func (connections) OnDisconnected(conn signalr.HubConnection) {
	if from, ok := requestOf(conn); ok {
		time.AfterFunc(closeTimeout, from.end)
	}
}

// InvokeAll implements signalr.HubLifetimeManager. It does nothing: a hub pushes.
func (connections) InvokeAll(string, []any) {}

// InvokeClient does nothing either.
func (connections) InvokeClient(string, string, []any) {}

// InvokeGroup does nothing either.
func (connections) InvokeGroup(string, string, []any) {}

// AddToGroup does nothing: groups are granted.
func (connections) AddToGroup(string, string) {}

// RemoveFromGroup does nothing either.
func (connections) RemoveFromGroup(string, string) {}
