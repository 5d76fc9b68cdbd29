package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/saga"
)

// begins is a rule that begins an instance, and does nothing to one that is there.
func begins(before func(ctx context.Context) error) errandRule {
	return errandRule{Key: byKey, Missing: saga.Start, Do: func(ctx context.Context, c *errandChange, _ *waybill.Message) error {
		if !c.New {
			return nil
		}
		c.Data.Did = append(c.Data.Did, "begin")
		return before(ctx)
	}}
}

// notes is a rule that notes the message.
func notes(before func(ctx context.Context) error) errandRule {
	return errandRule{Key: byKey, Do: func(ctx context.Context, c *errandChange, m *waybill.Message) error {
		c.Data.Did = append(c.Data.Did, m.Type)
		return before(ctx)
	}}
}

func atOnce(context.Context) error { return nil }

// TestSagaAtTheSameTime (AS-61) lets two messages change one instance in transactions that have both read
// it before one of them writes, where the store has such: the one that comes second is handled
// again in place. With Lock, and on SQLite, the second waits instead. Both have their effect.
func TestSagaAtTheSameTime(t *testing.T) {
	for _, lock := range []bool{false, true} {
		t.Run(fmt.Sprintf("lock %v", lock), func(t *testing.T) {
			inOffices(t, func(t *testing.T, o *office) {
				together, conflicts := newGathering(2).wait, true
				if lock || o.serial() {
					together, conflicts = atOnce, false
				}
				s := o.errands(t, o.store, lock)
				s.On("begin", begins(atOnce))
				s.On("left", notes(together))
				s.On("right", notes(together))
				o.run(t, s, consumer.Config{})
				o.tell(t, "begin", "a")
				o.waitStatus(t, "a", saga.Running, "begin")
				o.tell(t, "left", "a")
				o.tell(t, "right", "a")
				o.waitDone(t, "a", "begin", "left", "right")
				if n := o.ops.count(observe.OpRepeat); n > 0 != conflicts {
					t.Errorf("%d conflicts were repeated, want some: %v", n, conflicts)
				}
				o.noLetters(t)
			})
		})
	}
}

// waitDone waits until an instance has done as many things as are named, and checks that they are these, in
// whatever order, each by one change.
func (o *office) waitDone(t *testing.T, key string, want ...string) {
	t.Helper()
	eventually(t, "all is done", func() bool {
		_, data := o.instance(t, key)
		return len(data.Did) >= len(want)
	})
	in, data := o.instance(t, key)
	slices.Sort(data.Did)
	slices.Sort(want)
	if !slices.Equal(data.Did, want) || in.Version != int64(len(want)) {
		t.Errorf("%s has done %q in %d changes, want %q", key, data.Did, in.Version, want)
	}
}

// TestSagaRedelivered (AS-61) lets others be first more often than a message is repeated in place: it goes
// back to the broker, counts no attempt, and has its effect when it comes again.
func TestSagaRedelivered(t *testing.T) {
	inOffices(t, func(t *testing.T, o *office) {
		s := o.errands(t, &overtaken{Store: o.store, left: 7}, false)
		s.On("begin", begins(atOnce))
		o.run(t, s, consumer.Config{Retry: waybill.RetryPolicy{MaxRetries: waybill.NoRetries}})
		o.tell(t, "begin", "a")
		o.waitDone(t, "a", "begin")
		if repeats, pauses := o.ops.count(observe.OpRepeat), o.ops.count(observe.OpPause); repeats < 5 || pauses != 1 {
			t.Errorf("%d conflicts were repeated in place and %d deliveries deferred, want some of the first and 1", repeats, pauses)
		}
		o.noLetters(t)
	})
}

// TestSagaStartedTwice (AS-61) lets two messages begin one instance, at the same time and after its end.
func TestSagaStartedTwice(t *testing.T) {
	inOffices(t, func(t *testing.T, o *office) {
		together := newGathering(2).wait
		if o.serial() {
			together = atOnce
		}
		s := o.errands(t, o.store, false)
		s.On("begin", begins(together))
		s.On("begin too", begins(together))
		s.On("end", errandRule{Key: byKey, Do: func(_ context.Context, c *errandChange, _ *waybill.Message) error {
			c.Complete()
			return nil
		}})
		o.run(t, s, consumer.Config{})
		o.tell(t, "begin", "a")
		o.tell(t, "begin too", "a")
		eventually(t, "both are handled", func() bool {
			in, _ := o.instance(t, "a")
			return in.Version == 2
		})
		o.tell(t, "end", "a")
		ended := o.waitStatus(t, "a", saga.Completed, "begin")
		publish(t, o.broker, waybill.Message{ID: "late", Type: "begin", Topic: errandTopic, Key: "a"}, "late")
		eventually(t, "the late one is passed over", func() bool { return o.ops.count(observe.OpIgnore) == 1 })
		if in := o.waitStatus(t, "a", saga.Completed, "begin"); in.Version != ended.Version || in.Number != ended.Number {
			t.Errorf("the instance is %+v, want it as it has ended: %+v", in, ended)
		}
		if list, err := o.store.Sagas(t.Context(), saga.Filter{}); err != nil || len(list) != 1 {
			t.Errorf("Sagas() = %+v, %v; want one", list, err)
		}
		o.noLetters(t)
	})
}

// TestSagaNoKey (AS-61) makes a message that belongs to no instance a dead letter, and goes on.
func TestSagaNoKey(t *testing.T) {
	inOffices(t, func(t *testing.T, o *office) {
		s := o.errands(t, o.store, false)
		s.On("begin", begins(atOnce))
		o.run(t, s, consumer.Config{})
		o.tell(t, "begin", "")
		o.tell(t, "begin", "a")
		o.waitStatus(t, "a", saga.Running, "begin")
		eventually(t, "there is a dead letter", func() bool { return len(o.letters(t)) > 0 })
		if l := o.letters(t); len(l) != 1 || l[0].Message.ID != "begin " || l[0].Reason != waybill.ReasonMalformed {
			t.Errorf("dead letters = %+v, want the one without a key, as malformed", l)
		}
	})
}

// TestSagaByKey (AS-61) handles messages of one key one after the other: there are no conflicts.
func TestSagaByKey(t *testing.T) {
	inOffices(t, func(t *testing.T, o *office) {
		s := o.errands(t, o.store, false)
		s.On("begin", begins(atOnce))
		want := []string{"begin"}
		for i := range 20 {
			typ := fmt.Sprintf("m%d", i)
			s.On(typ, notes(atOnce))
			want = append(want, typ)
		}
		o.run(t, s, consumer.Config{Order: consumer.OrderByKey, Concurrency: 8})
		for _, typ := range want {
			o.tell(t, typ, "a")
		}
		o.waitDone(t, "a", want...)
		if n := o.ops.count(observe.OpRepeat); n > 0 {
			t.Errorf("%d conflicts were repeated, want none", n)
		}
		o.noLetters(t)
	})
}
