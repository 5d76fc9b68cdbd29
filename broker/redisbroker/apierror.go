package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

var (
	errClosed  = errors.New("redisbroker: broker is closed")
	errNotOurs = errors.New("redisbroker: another subscriber has taken the delivery over")
)

// classify gives an error of the client its kind and says what was being done. Errors of Redis
// concern memory, a role, a login or a setting, and never one message; only a key of another type,
// which somebody else has created, concerns that key.
func classify(doing string, err error) error {
	if err == nil {
		return nil
	}
	wrapped := fmt.Errorf("redisbroker: %s: %w", doing, err)
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return wrapped
	}
	return waybill.UnavailableError(wrapped)
}

// publishError returns the result of a message that Redis has answered with err.
func publishError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redis.Nil):
		return waybill.PermanentError(waybill.ReasonUnroutable, errors.New("redisbroker: no group receives the address: its stream is not there"))
	case connectionEnded(err):
		return connectionLost()
	case noAnswer(err):
		return unconfirmed(context.DeadlineExceeded)
	}
	return classify("publish", err)
}

// connectionLost is the result of a message whose outcome is unknown because the connection ended.
func connectionLost() error {
	return unconfirmed(contract.ErrConnectionLost)
}

// unconfirmed is the result of a message that Redis may have or not; why says why that is unknown.
func unconfirmed(why error) error {
	return waybill.UnavailableError(fmt.Errorf("redisbroker: no confirmation: %w", why))
}

// connectionEnded reports whether err says that an established connection has ended: neither that
// none could be made, nor a timeout.
func connectionEnded(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op != "dial" && !op.Timeout()
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrClosed)
}

// noAnswer reports whether err is a timeout on an established connection.
func noAnswer(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op != "dial" && op.Timeout()
	}
	return errors.Is(err, os.ErrDeadlineExceeded) // the client's check whether a connection is still open names no operation
}

// failed reports whether err ends a pipeline: it comes from the connection, not from Redis.
func failed(err error) bool {
	if err == nil {
		return false
	}
	var answer redis.Error
	return !errors.As(err, &answer)
}

// gone reports whether err says that a stream or its group does not exist.
func gone(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "NOGROUP") || strings.Contains(err.Error(), "no such key"))
}
