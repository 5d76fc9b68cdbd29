package settleplan

import (
	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// The error of the dead letter of a cancelled message, and the resolution if the program that
// enqueued it has cancelled it.
const (
	CancelledError    = "cancelled before it was published"
	CancelledByWriter = "cancelled in a transaction of its program"
)

// Cancel returns the plan that makes pending and waiting rows dead letters. A claim needs the fields
// that identify its row, and its attempts.
func Cancel(claims []contract.Claim) *Plan {
	list := make([]contract.Settlement, len(claims))
	for i := range claims {
		list[i] = contract.Settlement{
			Claim: &claims[i], Outcome: contract.Dead, Attempts: claims[i].Attempts, Reason: waybill.ReasonCancelled, Error: CancelledError,
		}
	}
	return New(list)
}
