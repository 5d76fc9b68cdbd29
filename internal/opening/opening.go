// Package opening lets a broker be opened while its server is unreachable.
package opening

import (
	"log/slog"

	"github.com/waybill-go/waybill"
)

// Tolerate returns the error of the first attempt to reach a broker, but nil if the server does not
// answer or refuses: that is logged, because the next use of the broker tries again.
func Tolerate(log *slog.Logger, broker, address string, err error) error {
	if !waybill.IsUnavailable(err) {
		return err
	}
	log.Warn("broker is unavailable; each use of it tries again", "broker", broker, "address", address, "error", waybill.ErrorText(err))
	return nil
}
