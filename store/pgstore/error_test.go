package pgstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-go/waybill"
)

// TestClassify_MissingTable says once, and of the store's own statements only, what to do.
func TestClassify_MissingTable(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"3F000", "42P01", "42703", "42883"} {
		err := error(&pgconn.PgError{Code: code})
		text := classify(fmt.Errorf("claim: %w", classify(err))).Error()
		if strings.Count(text, "waybill migrate") != 1 {
			t.Errorf("classify(%s) = %s, want it to name \"waybill migrate\" once", code, text)
		}
		if got := classifyCaller(err); got != err {
			t.Errorf("classifyCaller(%s) = %v, want the error of the caller's own table as it is", code, got)
		}
	}
}

// TestClassify_Ended: a transaction of the store's own that the server has ended is as one whose connection
// is lost. In a handler's it is the handler that took too long.
func TestClassify_Ended(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"25P03", "25P04"} {
		err := error(&pgconn.PgError{Code: code})
		if got := classify(err); !waybill.IsUnavailable(got) {
			t.Errorf("classify(%s) = %v, want it unavailable", code, got)
		}
		if got := classifyCaller(err); got != err {
			t.Errorf("classifyCaller(%s) = %v, want it as it is", code, got)
		}
	}
}
