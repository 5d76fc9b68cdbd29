package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
)

// stuckObserver returns from nothing that it is told before release is closed. It does not hold up what it is asked
// to time.
type stuckObserver struct {
	release chan struct{}
	told    chan struct{}
}

func (o *stuckObserver) Observe(context.Context, waybill.Event) {
	select {
	case o.told <- struct{}{}:
	default:
	}
	<-o.release
}

func (*stuckObserver) Start(ctx context.Context, _ waybill.Op, _ ...*waybill.Message) (context.Context, func(error)) {
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
