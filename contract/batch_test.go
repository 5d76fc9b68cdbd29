package contract

import (
	"errors"
	"strconv"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
)

func TestValidateBatch(t *testing.T) {
	t.Parallel()
	many := make([]inbox.Record, MaxBatch+1)
	for i := range many {
		many[i].Message = strconv.Itoa(i)
	}
	for name, tc := range map[string]struct {
		recs  []inbox.Record
		field string
	}{
		"as many as there may be": {many[:MaxBatch], ""},
		"one more":                {many, "recs"},
		"two with one key":        {[]inbox.Record{many[0], many[1], many[0]}, "recs[2].Key"},
		"one with a position":     {[]inbox.Record{many[0], {Key: many[1].Key, At: &inbox.Position{}}}, "recs[1].At"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := ValidateBatch(tc.recs)
			var invalid *waybill.InvalidError
			if errors.As(err, &invalid) != (tc.field != "") || invalid != nil && invalid.Field != tc.field {
				t.Errorf("ValidateBatch() = %v, want one about %q", err, tc.field)
			}
		})
	}
}
