package signalrbroker

import (
	"context"
	"fmt"
	"net/http"

	"github.com/philippseith/signalr"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/push"
)

// Handler serves SignalR clients of a hub. It is safe for concurrent use.
type Handler struct {
	hub     *push.Hub
	signalr http.Handler
}

// Config configures the SignalR endpoint. The hub decides who may connect.
type Config struct {
	// Path is where the handler is mounted, such as "/push"; clients also use what is below.
	// Required.
	Path string

	// AllowedOrigins are those of the hub's Config; WebSockets are checked separately. Optional.
	AllowedOrigins []string
}

// New returns a handler for the clients of a hub, to be mounted at the path and below:
//
//	mux.Handle("/push", h)
//	mux.Handle("/push/", h)
//
// It runs until ctx ends, which disconnects its clients, as the hub's Close does.
func New(ctx context.Context, hub *push.Hub, cfg Config) (*Handler, error) {
	if hub == nil {
		return nil, invalid("hub", "is required")
	}
	if len(cfg.Path) < 2 || cfg.Path[0] != '/' || cfg.Path[len(cfg.Path)-1] == '/' {
		return nil, invalid("Path", "must begin with a slash, have a name, and not end with a slash")
	}
	server, err := signalr.NewServer(ctx,
		signalr.UseHub(noMethods{}),
		signalr.WithHubLifetimeManager(func(signalr.Server) (signalr.HubLifetimeManager, error) {
			return connections{hub}, nil
		}),
		signalr.HTTPTransports(signalr.TransportWebSockets),
		signalr.AllowOriginPatterns(cfg.AllowedOrigins),
		signalr.MaximumReceiveMessageSize(maxReceived),
		signalr.Logger(noLog{}, false),
	)
	if err != nil {
		return nil, fmt.Errorf("signalrbroker: %w", err)
	}
	mux := http.NewServeMux()
	server.MapHTTP(signalr.WithHTTPServeMux(mux), cfg.Path)
	return &Handler{hub: hub, signalr: mux}, nil
}

// maxReceived is the largest message that a client may send, which sends no more than handshakes
// and pings.
const maxReceived = 4 << 10

// request is the request of a connection, kept in its context.
type request struct {
	grant       push.Grant
	lastEventID string
	end         context.CancelFunc // ends the connection, even during a write that does not return
}

type requestKey struct{}

// ServeHTTP implements [http.Handler]. Each request of a client is admitted by the hub, the
// negotiation and the connection itself. Nothing of the URL is logged: it may hold a token.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	grant, ok := h.hub.Admit(w, r)
	if !ok {
		return
	}
	ctx, end := context.WithCancel(r.Context())
	defer end()
	ctx = context.WithValue(ctx, requestKey{}, request{grant, push.LastEventID(r), end})
	h.signalr.ServeHTTP(w, r.WithContext(ctx))
}

// noMethods is what clients can call: nothing.
type noMethods struct{}

// Initialize implements signalr.HubInterface.
func (noMethods) Initialize(signalr.HubContext) {}

// OnConnected implements signalr.HubInterface.
func (noMethods) OnConnected(string) {}

// OnDisconnected implements signalr.HubInterface.
func (noMethods) OnDisconnected(string) {}

// noLog drops what the library logs, which may quote what clients send.
type noLog struct{}

// Log implements signalr.StructuredLogger.
func (noLog) Log(...any) error { return nil }

func invalid(field, reason string) error {
	return &waybill.InvalidError{Field: "signalrbroker." + field, Reason: reason}
}
