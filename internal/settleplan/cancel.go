package settleplan

import (
	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// What the dead letter of a cancelled message says, and how the one whose program has cancelled it is
// resolved.
const (
	CancelledError    = "cancelled before it was published"
	CancelledByWriter = "cancelled in a transaction of its program"
)

// Cancel returns the plan that makes pending and waiting rows dead letters. A claim needs what a row
// is found by, and its attempts.
func Cancel(claims []contract.Claim) *Plan {
	list := make([]contract.Settlement, len(claims))
	for i := range claims {
		list[i] = contract.Settlement{
			Claim: &claims[i], Outcome: contract.Dead, Attempts: claims[i].Attempts, Reason: waybill.ReasonCancelled, Error: CancelledError,
		}
	}
	return New(list)
}
