package sqldb

import (
	"context"

	"github.com/waybill-go/waybill"
)

// NoTx is the [Conn] of a transaction that is nil: its statements fail, and say what is missing.
type NoTx struct{}

var errNoTx = &waybill.InvalidError{Field: "tx", Reason: "is required"}

func (NoTx) Exec(context.Context, string, ...any) (int64, error) { return 0, errNoTx }
func (NoTx) Query(context.Context, string, ...any) (Rows, error) { return nil, errNoTx }
