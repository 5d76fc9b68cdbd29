package relay

import (
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/loop"
)

// confirmsLate reports whether a publisher is a LateConfirmer; if it panics it is not.
func confirmsLate(p contract.Publisher) (yes bool) {
	if l, ok := p.(contract.LateConfirmer); ok {
		_ = loop.Protect(func() error {
			yes = l.ConfirmsLate()
			return nil
		})
	}
	return yes
}
