package relay

import (
	"context"
	"errors"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

func TestDedupID(t *testing.T) {
	t.Parallel()
	for life, want := range map[int]string{0: "m", 1: "m#r1", 12: "m#r12"} {
		if got := dedupID("m", life); got != want {
			t.Errorf("dedupID(life %d) = %q, want %q", life, got, want)
		}
	}
}

func TestSend_PublisherWithTooFewResults(t *testing.T) {
	t.Parallel()
	o := &destination{Destination: Destination{Publisher: short{}}}
	errs := o.send(t.Context(), make([]contract.Outgoing, 2), func() {})
	if len(errs) != 2 || !waybill.IsUnavailable(errors.Join(errs...)) {
		t.Errorf("send() = %v, want every message unavailable", errs)
	}
}

type short struct{}

func (short) Send(context.Context, []contract.Outgoing) func() []error {
	return func() []error { return nil }
}
