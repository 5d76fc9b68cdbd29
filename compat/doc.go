// Package compat has the method sets of older inboxes, for those who move a program over and
// do not want to turn its flow around on the same day. docs/coming-from.md maps call by call.
//
// There are two families, because there are two promises:
//
//   - [Records], [States] and [Processor] work in the caller's own transaction. A mark that
//     comes second fails, so that what was done beside it is rolled back: of two callers that
//     both saw "not processed", one commits.
//   - [Keys] and [IDs] work on a [lease.Store], which has no part in the caller's
//     transaction. Of two callers that both saw "not processed" both have had their effect
//     when one of them is told so.
//
// [CheckThenAct] goes the other way: it runs a consumer on an inbox of the older kind.
//
// New programs use [inbox.Process] or package consumer, where the insert comes first and
// nobody works in vain.
package compat

import (
	"errors"

	"github.com/waybill-go/waybill"
)

// ErrAlreadyProcessed says that there is a record of the message. What the caller has done in
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
