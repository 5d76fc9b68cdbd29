package conformance

import (
	"errors"
	"sync"
	"testing"

	"github.com/waybill-go/waybill/compat"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inboxhttp"
	"github.com/waybill-go/waybill/store/storetest"
)

// TestCompatOnLeases: the key pairs of older inboxes on lease stores, near and far. Of callers
// that mark at once one receives the answer that it was the first.
func TestCompatOnLeases(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]storetest.LeaseHarness{
		"memory":      memoryLeases(),
		"redis":       redisLeaseHarness(newRedis(t)),
		"HTTP, redis": overHTTP(redisLeaseHarness(newRedis(t)), inboxhttp.Config{}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := h.Open(t)
			keys, err := compat.NewKeys(store)
			must(t, err)
			key := lease.Key{Bus: "rabbit", Group: "billing", Alias: "order.created", Message: "a:b/%c"}.String()
			processed := func(want bool) {
				t.Helper()
				if done, err := keys.IsProcessed(t.Context(), key); done != want || err != nil {
					t.Errorf("IsProcessed(%q) = %v, %v, want %v", key, done, err, want)
				}
			}
			processed(false)
			first := 0
			var mu sync.Mutex
			var callers sync.WaitGroup
			for range 20 {
				callers.Go(func() {
					err := keys.MarkProcessed(t.Context(), key)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						first++
					case !errors.Is(err, compat.ErrAlreadyProcessed) && !errors.Is(err, inbox.ErrBusy):
						t.Errorf("MarkProcessed() = %v", err)
					}
				})
			}
			callers.Wait()
			if first != 1 {
				t.Errorf("%d callers were answered that they were the first, want 1", first)
			}
			processed(true)

			for _, tenant := range []string{"acme", "zenith"} {
				ids, err := compat.NewIDs(store, lease.Key{Tenant: tenant, Bus: "rabbit", Group: "billing"})
				must(t, err)
				if there, err := ids.Exists(t.Context(), "m-1"); there || err != nil {
					t.Errorf("Exists() for %s = %v, %v before its mark", tenant, there, err)
				}
				must(t, ids.MarkAsProcessed(t.Context(), "m-1"))
				if there, err := ids.Exists(t.Context(), "m-1"); !there || err != nil {
					t.Errorf("Exists() for %s = %v, %v after its mark", tenant, there, err)
				}
			}
		})
	}
}
