package observe

import (
	"errors"
	"testing"

	"github.com/waybill-go/waybill"
)

func TestBatchError(t *testing.T) {
	t.Parallel()
	if err := (BatchError{nil, nil}).Err(); err != nil {
		t.Errorf("Err() = %v of a batch that went well", err)
	}
	refused := waybill.PermanentError(waybill.ReasonTooLarge, errors.New("refused"))
	err := BatchError{nil, refused}.Err()
	var batch BatchError
	if !errors.As(err, &batch) || batch[0] != nil || !errors.Is(err, refused) || !waybill.IsPermanent(err) || err.Error() != "refused" {
		t.Errorf("Err() = %#v, want the errors of both, and the kind of one", err)
	}
}
