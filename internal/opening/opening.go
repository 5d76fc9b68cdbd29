// Package opening lets a broker be opened while its server is unreachable.
package opening

import (
	"log/slog"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

// Opened returns b, given the error of the first attempt to reach its server. If the server does not answer or refuses, that is
// only logged, because the next use of the broker tries again. With any other error b is closed.
func Opened[B interface{ Close() error }](b B, log *slog.Logger, broker, address string, err error) (B, error) {
	switch {
	case waybill.IsUnavailable(err):
		log.Warn("broker is unavailable; each use of it tries again", "broker", broker, "address", address, "error", observe.ErrorText(err))
	case err != nil:
		_ = b.Close() // always nil
		var none B
		return none, err
	}
	return b, nil
}
