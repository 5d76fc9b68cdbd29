package sagatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/waybilltest"
)

// withReminders is a saga that reminds of an order a day later, and of something else whatever
// becomes of the order.
func withReminders(t *testing.T, store saga.Store[tx]) *orders {
	s := newSaga(t, store, saga.Config{})
	in := func(c *change, after time.Duration) time.Time {
		now, err := store.Now(t.Context(), c.Tx)
		if err != nil {
			t.Fatal(err)
		}
		return now.Add(after)
	}
	s.On("placed", rule{Key: bySubject, Missing: saga.Start, Do: func(ctx context.Context, c *change, _ *waybill.Message) error {
		_, first := c.Schedule(ctx, waybill.Message{ID: "due", Topic: "due", Type: "reminder"}, in(c, time.Hour))
		_, second := c.Schedule(ctx, waybill.Message{ID: "remind", Topic: "remind", Type: "reminder"}, in(c, 24*time.Hour))
		_, third := c.ScheduleDetached(ctx, waybill.Message{ID: "detached", Topic: "detached", Type: "reminder"}, in(c, 24*time.Hour))
		return errors.Join(first, second, third)
	}})
	s.On("paid", rule{Key: bySubject, Do: func(_ context.Context, c *change, _ *waybill.Message) error {
		c.Complete()
		return nil
	}})
	s.On("refused", rule{Key: bySubject, Do: func(_ context.Context, c *change, _ *waybill.Message) error {
		c.Compensate(errors.New("no money"))
		return nil
	}})
	s.Steps(step{Name: "reserve", Wait: true, Execute: doing("reserve"), Compensate: doing("release")})
	s.OnEnd(func(ctx context.Context, c *change) error {
		_, err := c.Schedule(ctx, waybill.Message{ID: "survey", Topic: "survey", Type: "reminder"}, in(c, 24*time.Hour))
		return err
	})
	return s
}

// TestSchedule_EndsWithInstance: what an instance has scheduled is cancelled when it ends, however
// it ends, but for what it has scheduled for good.
func TestSchedule_EndsWithInstance(t *testing.T) {
	t.Parallel()
	for end, want := range map[string][]string{
		"paid":    {"due", "detached", "survey"},
		"refused": {"due", "detached", "survey"},
		"":        {"due", "detached", "remind"},
	} {
		t.Run("end by "+end, func(t *testing.T) {
			t.Parallel()
			inKit(t, withReminders, func(t *testing.T, k *waybilltest.Kit) {
				k.Enqueue(message("placed", "a"))
				k.Advance(2 * time.Hour)
				if end != "" {
					k.Enqueue(message(end, "a"))
				}
				k.Advance(48 * time.Hour)
				var got []string
				for _, topic := range []string{"due", "detached", "remind", "survey"} {
					for range k.Messages(topic) {
						got = append(got, topic)
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("delivered %q, want %q", got, want)
				}
			})
		})
	}
}

// TestSchedule_Remembers: an instance that schedules for ever does not grow for ever.
func TestSchedule_Remembers(t *testing.T) {
	t.Parallel()
	inKit(t, func(t *testing.T, store saga.Store[tx]) *orders {
		s := newSaga(t, store, saga.Config{})
		s.On("placed", rule{Key: bySubject, Missing: saga.Start, Do: func(ctx context.Context, c *change, m *waybill.Message) error {
			for i := range 60 {
				id := fmt.Sprintf("%s-%d", m.ID, i)
				if _, err := c.Schedule(ctx, waybill.Message{ID: id, Topic: "remind", Type: "reminder"}, time.Now().Add(time.Minute)); err != nil {
					return err
				}
			}
			return nil
		}})
		return s
	}, func(t *testing.T, k *waybilltest.Kit) {
		for i := range 4 {
			m := message("placed", "a")
			m.ID = fmt.Sprint(i)
			k.Enqueue(m)
			k.Advance(36 * time.Hour)
		}
		in, err := k.Store.Saga(t.Context(), idOf("a"))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(in.Progress.Scheduled); n < 60 || n > 160 {
			t.Errorf("the instance remembers %d of 240 scheduled messages, want those of the latest changes", n)
		}
	})
}
