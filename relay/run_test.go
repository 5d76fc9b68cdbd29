package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

// stuckObserver returns from no event that it receives before release is closed. It does not hold up what it is asked
// to time.
type stuckObserver struct {
	release chan struct{}
	told    chan struct{}
}

func (o *stuckObserver) Observe(context.Context, observe.Event) {
	select {
	case o.told <- struct{}{}:
	default:
	}
	<-o.release
}

func (*stuckObserver) Start(ctx context.Context, _ observe.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

// TestRun_StuckObserver: an observer that does not return holds up neither messages nor who asks for the relay's state.
func TestRun_StuckObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src, broker := newFakeSource(), &fakeBroker{}
		src.commits = make(chan struct{}, 1)
		o := &stuckObserver{release: make(chan struct{}), told: make(chan struct{}, 1)}
		r, err := New(src, broker, Config{Observer: o})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		for n := range 500 {
			src.add(message("orders", "k", n+1))
		}
		pass(time.Minute)
		<-o.told
		if s := r.Status(); len(broker.ids()) != 500 || src.left() != 0 || s.Published != 500 || s.Held != 0 {
			t.Errorf("%d messages arrived, %d are left, %+v: want all published", len(broker.ids()), src.left(), s)
		}
		if err := r.Health(); err != nil {
			t.Errorf("Health() = %v, want nil", err)
		}
		close(o.release)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestRun_BusyObserver: what an observer has yet to receive is bounded. Until it goes on the relay keeps its lanes, takes
// in no more, and says so.
func TestRun_BusyObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src, broker := newFakeSource(), &fakeBroker{}
		src.commits = make(chan struct{}, 1)
		o := &stuckObserver{release: make(chan struct{}), told: make(chan struct{}, 1)}
		r, err := New(src, broker, Config{Observer: o, BatchSize: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		const all = 1000
		for n := range all {
			src.add(message("orders", "", n+1))
		}
		pass(5 * time.Minute)
		if n, s := len(broker.ids()), r.Status(); n < 10 || n > all/2 || s.Lease <= 0 || s.Lanes == 0 {
			t.Errorf("%d of %d messages arrived, %+v: want some, and the lease kept", n, all, s)
		}
		if r.Health() == nil {
			t.Error("Health() = nil, and nothing is claimed")
		}
		close(o.release)
		pass(5 * time.Minute)
		if n := len(broker.ids()); n != all || src.left() != 0 || r.Health() != nil {
			t.Errorf("%d of %d messages arrived, %d are left, %v", n, all, src.left(), r.Health())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
