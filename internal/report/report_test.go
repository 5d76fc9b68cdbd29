package report

import (
	"reflect"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

func TestByType(t *testing.T) {
	t.Parallel()
	msgs := []*waybill.Message{
		{ID: "1", Topic: "orders", Type: "placed"},
		{ID: "2", To: "billing", Type: "placed"},
		{ID: "3", Topic: "orders", Type: "placed"},
		{ID: "4", Topic: "orders", Type: "paid"},
	}
	e := observe.Event{Op: observe.OpPublish, Destination: "d", Duration: time.Second}
	want := []observe.Event{
		{Op: e.Op, Destination: "d", Duration: time.Second, Topic: "orders", Type: "placed", IDs: []string{"1", "3"}, Count: 2},
		{Op: e.Op, Destination: "d", Duration: time.Second, Topic: "billing", Type: "placed", IDs: []string{"2"}, Count: 1},
		{Op: e.Op, Destination: "d", Duration: time.Second, Topic: "orders", Type: "paid", IDs: []string{"4"}, Count: 1},
	}
	if got := ByType(e, msgs); !reflect.DeepEqual(got, want) {
		t.Errorf("ByType() = %+v, want %+v", got, want)
	}
}
