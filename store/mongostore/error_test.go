package mongostore

import (
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want waybill.Kind
	}{
		{mongo.CommandError{Code: 91, Name: "ShutdownInProgress"}, waybill.Unavailable},
		{mongo.CommandError{Code: 14031, Name: "OutOfDiskSpace"}, waybill.Unavailable},
		{mongo.CommandError{Code: 112, Name: "WriteConflict"}, waybill.Conflict},
		{mongo.CommandError{Code: 121, Name: "DocumentValidationFailure"}, waybill.Transient},
		{errors.New("out of stock"), waybill.Transient},
	} {
		if got := waybill.KindOf(classify(fmt.Errorf("handle: %w", test.err))); got != test.want {
			t.Errorf("%v is %v, want %v", test.err, got, test.want)
		}
	}
}
