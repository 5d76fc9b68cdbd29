package asbbroker

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

var (
	errClosed  = errors.New("asbbroker: broker is closed")
	errNoRight = errors.New("the key needs the right to manage")
)

// busy are the conditions by which the service reports that the namespace or the entity is
// temporarily unavailable, and those that an operator has to fix. No message is their cause.
var busy = map[amqp.ErrCond]bool{
	"com.microsoft:server-busy":             true,
	"com.microsoft:timeout":                 true,
	"com.microsoft:operation-cancelled":     true,
	"com.microsoft:entity-disabled":         true,
	"com.microsoft:container-close":         true,
	amqp.ErrCondResourceLimitExceeded:       true, // the entity is full
	amqp.ErrCondUnauthorizedAccess:          true,
	amqp.ErrCondInternalError:               true,
	"com.microsoft:internal-error":          true,
	"com.microsoft:partition-not-available": true,
}

// classify marks an error of the client library by what the caller must do, and says what was
// being done. nil stays nil.
func classify(doing string, err error) error {
	if err == nil {
		return nil
	}
	wrapped := fmt.Errorf("%s: %w", doing, err)
	condition := conditionOf(err)
	switch {
	case errors.Is(err, azservicebus.ErrMessageTooLarge), condition == amqp.ErrCondMessageSizeExceeded:
		return waybill.PermanentError(waybill.ReasonTooLarge, wrapped)
	case notFound(err):
		return waybill.PermanentError(waybill.ReasonUnroutable, wrapped)
	case lost(err):
		return waybill.UnavailableError(fmt.Errorf("%w: %w", contract.ErrConnectionLost, wrapped))
	case busy[condition], isContext(err), codeOf(err) != "":
		return waybill.UnavailableError(wrapped)
	}
	return wrapped
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// lost reports whether the connection or the link ended.
func lost(err error) bool {
	code := codeOf(err)
	return code == azservicebus.CodeConnectionLost || code == azservicebus.CodeClosed
}

// notFound reports whether there is no such entity.
func notFound(err error) bool {
	return codeOf(err) == azservicebus.CodeNotFound || conditionOf(err) == amqp.ErrCondNotFound
}

func codeOf(err error) azservicebus.Code {
	var e *azservicebus.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func conditionOf(err error) amqp.ErrCond {
	var e *amqp.Error
	if errors.As(err, &e) {
		return e.Condition
	}
	return ""
}
