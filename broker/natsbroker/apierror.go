package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// Error codes of JetStream that concern one message.
const (
	codeMessageTooLarge = 10054 // larger than the stream's MaxMsgSize
	codeHeadersTooLarge = 10097 // headers above 64 KiB
	codeWrongStream     = 10060 // Nats-Expected-Stream
)

var (
	errClosed       = errors.New("natsbroker: broker is closed")
	errNotConnected = errors.New("natsbroker: not connected")
	errNoResponders = errors.New("natsbroker: no stream answers on the subject")
)

// refusal gives err, an error of the JetStream API, its kind. What the server calls its own
// fault (5xx) or its load (429) is unavailable; what it says about the message is permanent;
// the rest is left transient.
func refusal(err error, code int, number jetstream.ErrorCode) error {
	switch {
	case number == codeMessageTooLarge, number == codeHeadersTooLarge:
		return waybill.PermanentError(waybill.ReasonTooLarge, err)
	case number == codeWrongStream:
		return waybill.PermanentError(waybill.ReasonUnroutable, err)
	case code >= 500, code == 429:
		return waybill.UnavailableError(err)
	}
	return err
}

// outage are the client's errors that say that the server, or the connection to it, is gone.
var outage = []error{
	nats.ErrAuthExpired, nats.ErrAuthorization, nats.ErrAuthRevoked,
	nats.ErrConnectionClosed, nats.ErrConnectionDraining, nats.ErrConnectionReconnecting,
	nats.ErrDisconnected, nats.ErrNoResponders, nats.ErrNoServers, nats.ErrPermissionViolation,
	nats.ErrReconnectBufExceeded, nats.ErrStaleConnection, nats.ErrTimeout,
	context.Canceled, context.DeadlineExceeded,
}

// classify gives an error of the client library its kind and says what was being done.
func classify(doing string, err error) error {
	if err == nil {
		return nil
	}
	var api jetstream.JetStreamError
	known := errors.As(err, &api) && api.APIError() != nil
	err = fmt.Errorf("natsbroker: %s: %w", doing, err)
	if known {
		return refusal(err, api.APIError().Code, api.APIError().ErrorCode)
	}
	if slices.ContainsFunc(outage, func(target error) bool { return errors.Is(err, target) }) {
		return waybill.UnavailableError(err)
	}
	return err
}

// connectionLost is the result of a message whose outcome is unknown because the connection
// ended.
func connectionLost() error { return unconfirmed(contract.ErrConnectionLost) }

func unconfirmed(why error) error {
	return waybill.UnavailableError(fmt.Errorf("natsbroker: no confirmation: %w", why))
}
