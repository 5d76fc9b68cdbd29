// Package compat has the method sets of older inboxes, for programs that migrate without changing
// their flow at once. docs/coming-from.md maps their calls.
//
// There are two families, with two different guarantees:
//
//   - [Records], [States] and [Processor] work in the caller's transaction. A second mark
//     fails, so that what was done with it is rolled back: of two callers that
//     both saw "not processed", one commits.
//   - [Keys] and [IDs] work on a [lease.Store], which has no part in the caller's
//     transaction. Of two callers that both saw "not processed", both have had their effect
//     by the time one of them gets the error.
//
// [CheckThenAct] does the opposite: it runs a consumer on a self-written inbox.
//
// New programs use [inbox.Process] or package consumer, where the insert comes first and no work is
// wasted.
package compat

import (
	"errors"

	"github.com/waybill-go/waybill"
)

// ErrAlreadyProcessed reports that there is a record of the message. What the caller has done in
// its transaction must be rolled back; the message can be acknowledged after that.
var ErrAlreadyProcessed = errors.New("compat: message has been processed already")

// orDefault returns the tenant, or the default one for "".
func orDefault(tenant string) string {
	if tenant == "" {
		return waybill.DefaultTenant
	}
	return tenant
}

func required(field string) error {
	return &waybill.InvalidError{Field: field, Reason: "is required"}
}
