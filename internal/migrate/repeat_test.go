package migrate

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
)

func TestRepeat(t *testing.T) {
	t.Parallel()
	conflict, other := waybill.ConflictError(errors.New("deadlock")), errors.New("syntax error")
	for _, tc := range []struct {
		name  string
		fails []error // the first runs
		want  error
		runs  int
	}{
		{"at once", nil, nil, 1},
		{"after conflicts", []error{conflict, conflict}, nil, 3},
		{"another error", []error{conflict, other}, other, 2},
		{"always", slices.Repeat([]error{conflict}, 20), conflict, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				runs, began := 0, time.Now()
				err := Repeat(t.Context(), func() error {
					runs++
					if runs > len(tc.fails) {
						return nil
					}
					return tc.fails[runs-1]
				})
				if !errors.Is(err, tc.want) || runs != tc.runs {
					t.Errorf("Repeat() = %v after %d runs, want %v after %d", err, runs, tc.want, tc.runs)
				}
				if took, want := time.Since(began), time.Duration(tc.runs-1)*time.Second; took != want {
					t.Errorf("Repeat() took %v, want %v: a second between two runs", took, want)
				}
			})
		})
	}
}

func TestRepeat_Ended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		runs := 0
		err := Repeat(ctx, func() error { runs++; return waybill.ConflictError(errors.New("deadlock")) })
		if !waybill.IsConflict(err) || runs != 2 {
			t.Errorf("Repeat() = %v after %d runs, want the conflict after 2", err, runs)
		}
	})
}
