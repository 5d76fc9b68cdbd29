package cli

import (
	"fmt"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
)

// TestLetterProblem: of the letters that a filter has found, those that others have dealt with are no failures; one that
// can't be requeued yet is.
func TestLetterProblem(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err       error
		overtaken bool
	}{
		{waybill.ErrNotFound, true},
		{deadletter.ErrResolved, true},
		{deadletter.ErrRequeued, true},
		{deadletter.ErrBehind, false},
	} {
		if text, overtaken := letterProblem(fmt.Errorf("letter 7: %w", tc.err)); overtaken != tc.overtaken || text == "" {
			t.Errorf("letterProblem(%v) = %q, %v", tc.err, text, overtaken)
		}
	}
}
