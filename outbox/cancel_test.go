package outbox

import (
	"errors"
	"slices"
	"testing"

	"github.com/waybill-go/waybill"
)

// TestCancel_Identity: what is left out of the identity is filled in as for an enqueue.
func TestCancel_Identity(t *testing.T) {
	t.Parallel()
	w, s, _ := newTraced(t)
	handling := waybill.WithMessage(t.Context(), &waybill.Message{ID: "cause", Source: "elsewhere", Tenant: "acme"})
	if c, err := w.Cancel(handling, 0, Identity{ID: "a"}); err != nil || c.Removed != 1 {
		t.Errorf("Cancel() = %+v, %v", c, err)
	}
	for _, id := range []Identity{{ID: "b"}, {ID: "c", Source: "other", Tenant: "own"}} {
		if _, err := w.Cancel(t.Context(), 0, id); err != nil {
			t.Errorf("Cancel(%+v) = %v", id, err)
		}
	}
	want := []Identity{{"shop", "acme", "a"}, {"shop", waybill.DefaultTenant, "b"}, {"other", "own", "c"}}
	if !slices.Equal(s.cancelled, want) {
		t.Errorf("cancelled %+v, want %+v", s.cancelled, want)
	}
	var invalid *waybill.InvalidError
	for _, id := range []string{"", "a\x00", "\xff"} {
		if _, err := w.Cancel(t.Context(), 0, Identity{ID: id}); !errors.As(err, &invalid) || len(s.cancelled) != len(want) {
			t.Errorf("Cancel() of %q = %v, want an InvalidError", id, err)
		}
	}
}

// TestIdentity_Check: what no message can have is refused, and the field is named.
func TestIdentity_Check(t *testing.T) {
	t.Parallel()
	for field, id := range map[string]Identity{
		"": {ID: "a", Tenant: "acme"}, "id": {Tenant: "acme"}, "tenant": {ID: "a", Source: "shop"},
	} {
		var invalid *waybill.InvalidError
		if err := id.Check(); (err != nil) != (field != "") || errors.As(err, &invalid) && invalid.Field != field {
			t.Errorf("Check() of %+v = %v, want it to name %q", id, err, field)
		}
	}
}
