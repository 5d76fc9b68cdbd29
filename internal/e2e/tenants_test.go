package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-go/waybill/relay"
)

// TestTenantsShareABacklog: ten messages of a small tenant behind 20,000 of a large one are among the
// first thousand that are published, without any rate.
func TestTenantsShareABacklog(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"keys": "tenant || i % 100", "no keys": "''"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := plainWorld(t)
			w.exec(t, "INSERT INTO "+w.table("outbox")+" (id, topic, tenant, key, payload)"+
				" SELECT tenant || i, 'orders', tenant, "+key+", '{}'"+
				" FROM (SELECT 'large' AS tenant, i FROM generate_series(1, 20000) i UNION ALL SELECT 'small', i FROM generate_series(1, 10) i) m")
			pub := &recorder{}
			r, err := relay.New(w.store, pub, quick(relay.Config{}))
			if err != nil {
				t.Fatal(err)
			}
			run(t, t.Context(), r.Run)
			eventually(t, "everything is out", func() bool { return len(pub.ids()) >= 20_010 })
			places := []int{}
			for i, id := range pub.ids() {
				if strings.HasPrefix(id, "small") {
					places = append(places, i+1)
				}
			}
			if len(places) != 10 || slices.Max(places) > 1000 {
				t.Errorf("the small tenant's messages came at places %v, want all among the first thousand", places)
			}
		})
	}
}
