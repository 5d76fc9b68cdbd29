package mongostore

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/waybill-go/waybill"
)

// Labels and codes by which MongoDB says what a failure means.
const (
	labelTransient = "TransientTransactionError"
	labelUnknown   = "UnknownTransactionCommitResult"
	labelRetryable = "RetryableWriteError"

	codeNoIndex       = 27
	codeWriteConflict = 112
	codeNoTransaction = 251 // the server has aborted it
)

// serverCodes are those of a server that has no primary, shuts down, cannot be reached by the one
// that answers, or has no room on its disk.
var serverCodes = []int{6, 7, 89, 91, 189, 10107, 11600, 11602, 13435, 13436, 14031}

// classify gives an error of the driver its kind. An error that the caller's own function has
// returned comes back as it is, unless it is the driver's.
func classify(err error) error {
	switch {
	case err == nil, waybill.KindOf(err) != waybill.Transient:
		return err
	case isOutage(err):
		return waybill.UnavailableError(err)
	case isClash(err):
		return waybill.ConflictError(err)
	}
	return err
}

// isClash reports whether a transaction has met another one and may be repeated.
func isClash(err error) bool {
	var labelled mongo.LabeledError
	if errors.As(err, &labelled) && labelled.HasErrorLabel(labelTransient) {
		return true
	}
	var server mongo.ServerError
	return errors.As(err, &server) && (server.HasErrorCode(codeWriteConflict) || server.HasErrorCode(codeNoTransaction))
}

// isOutage reports whether the server did not answer, or is one that cannot.
func isOutage(err error) bool {
	if errors.Is(err, mongo.ErrClientDisconnected) || mongo.IsNetworkError(err) {
		return true
	}
	var labelled mongo.LabeledError
	if errors.As(err, &labelled) && (labelled.HasErrorLabel(labelRetryable) || labelled.HasErrorLabel(labelUnknown)) {
		return true
	}
	var server mongo.ServerError
	if !errors.As(err, &server) {
		return errors.As(err, &topology.ServerSelectionError{}) || errors.As(err, &topology.WaitQueueTimeoutError{})
	}
	for _, code := range serverCodes {
		if server.HasErrorCode(code) {
			return true
		}
	}
	return false
}

// wrap says what was being done when the driver failed.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return classify(fmt.Errorf("%s: %w", what, err))
}
