package kafkabroker

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

var errClosed = errors.New("kafkabroker: broker is closed")

// refusals are the answers of the cluster that concern one message or topic.
var refusals = map[*kerr.Error]waybill.Reason{
	kerr.InvalidTopicException:       waybill.ReasonUnroutable,
	kerr.InvalidRecord:               waybill.ReasonRejected,
	kerr.PolicyViolation:             waybill.ReasonRejected,
	kerr.UnsupportedForMessageFormat: waybill.ReasonRejected,
}

// classify gives an error of the cluster or of the client library its kind, and says what was
// being done. What no single message causes is unavailable: no connection, no leader, too few
// replicas, a right that is missing.
func classify(doing string, err error) error {
	if err == nil {
		return nil
	}
	said := fmt.Errorf("kafkabroker: %s: %w", doing, err)
	var answer *kerr.Error
	if errors.As(err, &answer) {
		if reason, ok := refusals[answer]; ok {
			return waybill.PermanentError(reason, said)
		}
	}
	return waybill.UnavailableError(said)
}

// connectionLost is the result of a message whose outcome is unknown because the connection
// ended.
func connectionLost() error { return unconfirmed(contract.ErrConnectionLost) }

// unknownTopic is the result of a message whose topic does not exist.
func unknownTopic(name string) error {
	return waybill.PermanentError(waybill.ReasonUnroutable, fmt.Errorf("kafkabroker: topic %q does not exist", name))
}
