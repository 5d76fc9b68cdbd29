package recording

import (
	"testing"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// TestKindOf: every event has a kind of its own. One that is new in the core and not known here would be
// recorded as a stop.
func TestKindOf(t *testing.T) {
	t.Parallel()
	kinds := make(map[uint64]relaycore.Event)
	for _, e := range []relaycore.Event{
		relaycore.Leased{}, relaycore.LeaseFailed{}, relaycore.Claimed{}, relaycore.ClaimedAhead{}, relaycore.ClaimFailed{},
		relaycore.Released{}, relaycore.Counted{}, relaycore.Woken{}, relaycore.Answered{}, relaycore.Settled{},
		relaycore.SettleFailed{}, relaycore.Tick{}, relaycore.Stop{},
	} {
		kind := kindOf(e)
		if other, taken := kinds[kind]; taken {
			t.Errorf("kindOf(%T) = %d, as that of %T", e, kind, other)
		}
		kinds[kind] = e
	}
}

// TestWriter_Reveal: the tenants that the core knows as hashes are asked for by their names.
func TestWriter_Reveal(t *testing.T) {
	t.Parallel()
	w := &Writer{}
	messages := []relaycore.Message{{Tenant: "a"}, {Tenant: "b"}}
	w.Conceal(messages)
	if names, known := w.Reveal([]string{messages[1].Tenant, messages[0].Tenant}); !known || len(names) != 2 || names[0] != "b" || names[1] != "a" {
		t.Errorf("Reveal() = %q, %v, want b and a", names, known)
	}
	if names, known := w.Reveal([]string{"never hashed"}); known {
		t.Errorf("Reveal() of a stranger = %q, want that it is not known", names)
	}
}
