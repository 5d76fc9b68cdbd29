package e2e

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/relay"
)

// TestTenantsShareABacklog: ten messages of a small tenant behind 20,000 of a large one are among the
// first thousand that are published, without any rate.
//
//test:sessions
func TestTenantsShareABacklog(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"keys": "tenant || i % 100", "no keys": "''"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := plainWorld(t)
			w.exec(t, "INSERT INTO "+w.table("outbox")+" (id, topic, tenant, key, payload)"+
				" SELECT tenant || i, 'orders', tenant, "+key+", '{}'"+
				" FROM (SELECT 'large' AS tenant, i FROM generate_series(1, 20000) i UNION ALL SELECT 'small', i FROM generate_series(1, 10) i) m")
			pub := &ahead{looked: make(chan struct{})}
			r, err := relay.New(&looking{AheadSource: w.store, pub: pub}, pub, quick(relay.Config{}))
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

// ahead is a recorder that answers when the relay has looked past the backlog, however long that takes
// here: what is published meanwhile is a matter of speed.
type ahead struct {
	recorder
	once   sync.Once
	looked chan struct{}
}

func (p *ahead) Send(ctx context.Context, msgs []contract.Outgoing) func() []error {
	wait := p.recorder.Send(ctx, msgs)
	return func() []error {
		<-p.looked
		return wait()
	}
}

// looking tells its publisher of looks.
type looking struct {
	contract.AheadSource
	pub *ahead
}

func (l *looking) ClaimAhead(ctx context.Context, req contract.AheadRequest) ([]contract.Claim, int64, error) {
	defer l.pub.once.Do(func() { close(l.pub.looked) })
	return l.AheadSource.ClaimAhead(ctx, req)
}
