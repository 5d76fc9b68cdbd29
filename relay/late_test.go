package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// lateBroker stores messages at once and confirms them after a while, over a connection that lives.
type lateBroker struct {
	after  func(topic string) time.Duration
	lost   atomic.Bool // the connection ends, with what is unconfirmed on it
	mu     sync.Mutex
	stored map[string]int // how often, by id
	copies int
}

func (b *lateBroker) ConfirmsLate() bool { return true }

func (b *lateBroker) Send(ctx context.Context, msgs []contract.Outgoing) func() []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stored == nil {
		b.stored = make(map[string]int)
	}
	for _, m := range msgs {
		if b.stored[m.ID]++; b.stored[m.ID] > 1 {
			b.copies++
		}
	}
	sent := time.Now()
	return func() []error {
		errs := make([]error, len(msgs))
		for i, m := range msgs {
			select {
			case <-time.After(time.Until(sent.Add(b.after(m.Topic)))):
			case <-ctx.Done():
				errs[i] = waybill.UnavailableError(fmt.Errorf("no confirm: %w", ctx.Err()))
			}
		}
		if b.lost.Load() {
			return fillErrors(len(msgs), waybill.UnavailableError(contract.ErrConnectionLost))
		}
		return errs
	}
}

// TestRelay_LateConfirms: confirms that come later than PublishTimeout settle what they confirm, and
// nothing is sent again on the connection that they are yet to come over.
func TestRelay_LateConfirms(t *testing.T) {
	t.Parallel()
	for _, topics := range []int{1, 20} {
		for _, after := range []time.Duration{2 * time.Second, 3500 * time.Millisecond, 5 * time.Second, 15 * time.Second} {
			t.Run(fmt.Sprint(topics, " topics, ", after), func(t *testing.T) {
				t.Parallel()
				src, broker := newFakeSource(), &lateBroker{after: func(string) time.Duration { return after }}
				for n := range 2000 {
					src.add(message(fmt.Sprint("t", n%topics), fmt.Sprint("k", n%100), n/100+1))
				}
				inBubble(t, src, []Destination{{Publisher: broker}}, Config{}, func(t *testing.T, _ *Relay) {
					pass(2 * after)
					if src.left() == 2000 {
						t.Errorf("nothing is settled after %v", 2*after)
					}
					pass(10 * time.Minute)
					if broker.copies > 0 || src.left() > 0 {
						t.Errorf("%d copies and %d messages left, want none", broker.copies, src.left())
					}
				})
			})
		}
	}
}

// TestRelay_OneTopicIsNeverConfirmed: of a topic whose confirms never come nothing is sent again before
// long, and the messages of others that were sent with it are settled and their keys go on.
func TestRelay_OneTopicIsNeverConfirmed(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	broker := &lateBroker{after: func(topic string) time.Duration {
		if topic == "stuck" {
			return time.Hour
		}
		return 50 * time.Millisecond
	}}
	for n := range 10 {
		src.add(message("stuck", "k", n+1))
		for key := range 10 {
			src.add(message("well", fmt.Sprint("k", key), n+1))
		}
	}
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{}, func(t *testing.T, r *Relay) {
		for n := range 40 {
			src.add(message("well", "more", n+1))
			pass(500 * time.Millisecond)
		}
		if left := src.left(); left != 10 {
			t.Errorf("%d are left, want those of the topic that is not confirmed", left)
		}
	})
}

// TestRelay_LateConfirmsAreLost: what was waited for is sent again when the connection is lost, or the
// lease, over which nothing is waited for.
func TestRelay_LateConfirmsAreLost(t *testing.T) {
	t.Parallel()
	t.Run("connection", func(t *testing.T) {
		t.Parallel()
		src := newFakeSource()
		broker := &lateBroker{after: func(string) time.Duration { return 10 * time.Second }}
		src.add(message("orders", "k", 1), message("orders", "k", 2))
		broker.lost.Store(true)
		inBubble(t, src, []Destination{{Publisher: broker}}, Config{}, func(t *testing.T, _ *Relay) {
			pass(15 * time.Second)
			broker.lost.Store(false)
			pass(time.Minute)
			if broker.copies == 0 || src.left() > 0 {
				t.Errorf("%d copies and %d messages left, want the messages sent again", broker.copies, src.left())
			}
		})
	})
	t.Run("lease", func(t *testing.T) {
		t.Parallel()
		src := newFakeSource()
		var away atomic.Bool
		s := &silentSource{fakeSource: src, silent: func(string) bool { return away.Load() }}
		ended := make(chan time.Duration, 100)
		broker := &lateBroker{after: func(string) time.Duration { return time.Hour }}
		src.add(message("orders", "k", 1))
		inBubbleWith(t, s, src, []Destination{{Publisher: watched{broker, ended}}}, Config{}, func(t *testing.T, r *Relay) {
			away.Store(true)
			pass(30 * time.Second)
			select {
			case took := <-ended:
				if limit := r.cfg.LeaseTTL + r.cfg.PublishTimeout; took > limit {
					t.Errorf("a batch was waited for for %v, want at most %v", took, limit)
				}
			default:
				t.Error("a batch is waited for although the lease has ended")
			}
		})
	})
}

// watched tells how long batches are waited for.
type watched struct {
	*lateBroker
	ended chan time.Duration
}

func (w watched) Send(ctx context.Context, msgs []contract.Outgoing) func() []error {
	began := time.Now()
	wait := w.lateBroker.Send(ctx, msgs)
	return func() []error {
		errs := wait()
		if errors.Join(errs...) != nil {
			w.ended <- time.Since(began)
		}
		return errs
	}
}
