package brokerkit

import (
	"fmt"

	"github.com/waybill-go/waybill"
)

// CheckPayload returns the result of a message whose payload has more bytes than limit, nil if it has not.
func CheckPayload(payload []byte, limit int) error {
	if len(payload) <= limit {
		return nil
	}
	return waybill.PermanentError(waybill.ReasonTooLarge, fmt.Errorf("payload has %d bytes, the limit is %d", len(payload), limit))
}
