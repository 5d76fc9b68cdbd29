package e2e

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga/slip"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/waybilltest"
)

// journey is what the hosts of a story in memory do: each call leaves its line in one trail.
type journey struct {
	fails map[string]error // by line
	calls []string         // those that were rolled back too
}

var (
	errNever = waybill.PermanentError(waybill.ReasonRejected, errors.New("never"))
	errLater = errors.New("later")
)

// mark leaves a line in the trail, or fails.
func (j *journey) mark(tx *memstore.Tx, verb string, c *slip.Call) error {
	line := verb + " " + c.Activity
	j.calls = append(j.calls, line)
	trail, _ := tx.Get("trail").(string)
	tx.Set("trail", trail+line+"\n")
	return j.fails[line]
}

// activity counts in a variable how many were executed, and logs its number for its compensation.
func (j *journey) activity(name string) slip.Activity[*memstore.Tx] {
	return slip.Activity[*memstore.Tx]{
		Name: name,
		Execute: func(_ context.Context, tx *memstore.Tx, c *slip.Call) error {
			var count int
			_, err := c.Var("count", &count)
			return errors.Join(err, c.SetVar("count", count+1), c.SetLog(name+"'s log"), j.mark(tx, "execute", c))
		},
		Compensate: func(_ context.Context, tx *memstore.Tx, c *slip.Call) error {
			var log string
			if err := c.Log(&log); err != nil || log != name+"'s log" || c.Fault == nil {
				return fmt.Errorf("Log() = %q, %v, Fault = %v; want its own, and why", log, err, c.Fault)
			}
			return j.mark(tx, "compensate", c)
		},
	}
}

// host returns a host of all activities of the story; note is one without compensation.
func (j *journey) host(w *outbox.Writer[*memstore.Tx], cfg slip.Config[*memstore.Tx]) (*slip.Host[*memstore.Tx], error) {
	note := j.activity("note")
	note.Compensate = nil
	cfg.Activities = []slip.Activity[*memstore.Tx]{j.activity("reserve"), note, j.activity("charge"), j.activity("ship")}
	return slip.NewHost(w, cfg)
}

// slipTopics are one for each activity.
var slipTopics = []string{"slip.reserve", "slip.note", "slip.charge", "slip.ship"}

func newTrip(activities ...string) *slip.Slip {
	s := slip.New().Vars(map[string]any{"order": 17}).Events("slip.events")
	for _, a := range activities {
		s.Add(a, "slip."+a, map[string]string{"for": a})
	}
	return s
}

// inMemory runs s in a system of its own until nothing happens any more.
func (j *journey) inMemory(t *testing.T, s *slip.Slip, cfg slip.Config[*memstore.Tx]) *waybilltest.Kit {
	t.Helper()
	k := waybilltest.New(t)
	h, err := j.host(k.Outbox(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	k.Consume(consumer.Subscription{Group: "host", Topics: slipTopics}, h.Handle, consumer.Config{GiveUp: slip.GivesUp})
	startSlip(t, k, s)
	return k
}

func startSlip(t *testing.T, k *waybilltest.Kit, s *slip.Slip) {
	t.Helper()
	_, err := k.Outbox().InTx(t.Context(), func(ctx context.Context, tx *memstore.Tx, _ *outbox.Recorder) error {
		return slip.Start(ctx, k.Outbox(), tx, s)
	})
	if err != nil {
		t.Fatal(err)
	}
	k.Advance(10 * time.Minute) // all retries
}

func wantTrail(t *testing.T, k *waybilltest.Kit, want ...string) {
	t.Helper()
	got, _ := k.Store.Value("trail").(string)
	if lines := strings.Split(strings.TrimSpace(got), "\n"); !reflect.DeepEqual(lines, want) {
		t.Errorf("trail %q, want %q", lines, want)
	}
}

// slipEvents returns the events as "completed ship", with the prefixes of their types cut off.
func slipEvents(k *waybilltest.Kit) []string {
	events := []string{}
	for _, m := range k.Messages("slip.events") {
		events = append(events, strings.TrimPrefix(m.Type, "waybill.slip."))
	}
	return events
}

// TestSlipInMemory takes slips there and back.
func TestSlipInMemory(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		activities []string
		fails      map[string]error
		trail      []string
		events     []string
	}{
		{
			"all goes well", []string{"reserve", "note", "ship"}, nil,
			[]string{"execute reserve", "execute note", "execute ship"},
			[]string{"activity_completed", "activity_completed", "activity_completed", "completed"},
		},
		{
			"the first fails", []string{"reserve", "charge"}, map[string]error{"execute reserve": errNever},
			[]string{""},
			[]string{"activity_faulted", "faulted"},
		},
		{
			"the last fails for good", []string{"reserve", "charge", "ship"}, map[string]error{"execute ship": errNever},
			[]string{"execute reserve", "execute charge", "compensate charge", "compensate reserve"},
			[]string{"activity_completed", "activity_completed", "activity_faulted", "activity_compensated", "activity_compensated", "faulted"},
		},
		{
			"the last fails until the retries are used up", []string{"reserve", "ship"}, map[string]error{"execute ship": errLater},
			[]string{"execute reserve", "compensate reserve"},
			[]string{"activity_completed", "activity_faulted", "activity_compensated", "faulted"},
		},
		{
			"what has no compensation is passed by", []string{"reserve", "note", "ship"}, map[string]error{"execute ship": errNever},
			[]string{"execute reserve", "execute note", "compensate reserve"},
			[]string{"activity_completed", "activity_completed", "activity_faulted", "activity_compensated", "faulted"},
		},
		{
			"nothing has a compensation", []string{"note", "ship"}, map[string]error{"execute ship": errNever},
			[]string{"execute note"},
			[]string{"activity_completed", "activity_faulted", "faulted"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				j := &journey{fails: tt.fails}
				k := j.inMemory(t, newTrip(tt.activities...), slip.Config[*memstore.Tx]{})
				wantTrail(t, k, tt.trail...)
				if got := slipEvents(k); !reflect.DeepEqual(got, tt.events) {
					t.Errorf("events %q, want %q", got, tt.events)
				}
				if letters := k.DeadLetters(); len(letters) != 0 {
					t.Errorf("dead letters %+v, want none", letters)
				}
			})
		})
	}
}

// TestSlipVariables looks at what travels: variables, what an event says, and whom it is about.
func TestSlipVariables(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := &journey{fails: map[string]error{"execute ship": errLater}}
		s := newTrip("reserve", "ship")
		k := j.inMemory(t, s, slip.Config[*memstore.Tx]{})
		events := waybilltest.Published[slip.Event](t, k, "slip.events")
		last := events[len(events)-1]
		if last.Slip != s.ID() || string(last.Vars["count"]) != "1" || string(last.Vars["order"]) != "17" {
			t.Errorf("last event %+v, want the slip, what was set at the start, and what only the first activity has set", last)
		}
		if f := last.Fault; f == nil || f.Activity != "ship" || f.Reason != waybill.ReasonExhausted || f.Error != "later" || f.Attempts != 6 {
			t.Errorf("fault %+v, want that of ship, with 6 attempts", f)
		}
		for _, m := range k.Messages("slip.events") {
			if m.Key != s.ID() || m.Subject != s.ID() {
				t.Errorf("%s: key %q, subject %q, want the slip's id", m.Type, m.Key, m.Subject)
			}
		}
	})
}

// TestSlipIsStuck fails to compensate: a person is notified, and requeues the letter when the cause is
// fixed, after a time in vain. Advance does not take the letter for a copy.
func TestSlipIsStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := &journey{fails: map[string]error{"execute ship": errNever, "compensate charge": errLater}}
		k := j.inMemory(t, newTrip("reserve", "charge", "ship"), slip.Config[*memstore.Tx]{Advance: advance})
		stuck := []string{"execute reserve", "execute charge"}
		told := []string{"activity_completed", "activity_completed", "activity_faulted", "activity_compensation_failed", "compensation_failed"}
		requeue := func() {
			t.Helper()
			wantTrail(t, k, stuck...)
			if got := slipEvents(k); !reflect.DeepEqual(got, told) {
				t.Fatalf("events %q, want %q", got, told)
			}
			letters := k.DeadLetters()
			if len(letters) != 1 || letters[0].Reason != waybill.ReasonExhausted || letters[0].Error != "later" {
				t.Fatalf("dead letters %+v, want one that says why", letters)
			}
			if ok, err := k.Store.RequeueDeadLetter(t.Context(), letters[0].Number, deadletter.Act{By: "test"}); !ok || err != nil {
				t.Fatalf("RequeueDeadLetter() = %v, %v", ok, err)
			}
			k.Advance(time.Minute)
		}
		requeue()
		if n := len(j.calls); n != 2+1+6+1 {
			t.Errorf("%d calls, %q; want six tries to compensate, and one more when the letter was requeued", n, j.calls)
		}
		delete(j.fails, "compensate charge")
		requeue()
		wantTrail(t, k, append(stuck, "compensate charge", "compensate reserve")...)
		if got := slipEvents(k); !reflect.DeepEqual(got, append(told, "activity_compensated", "activity_compensated", "faulted")) {
			t.Errorf("events %q, want the rest of the way back", got)
		}
		if back := k.Messages("slip.reserve"); strings.Contains(string(back[len(back)-1].Payload), `"failure"`) {
			t.Errorf("%s says that the slip is stuck, and it is not any more", back[len(back)-1].Payload)
		}
	})
}

// TestSlipUnderEveryCrash lets the process crash after each number of steps of a slip that goes
// there and back: whatever the moment, each activity is done once, and undone once.
func TestSlipUnderEveryCrash(t *testing.T) {
	t.Parallel()
	for n := range 31 { // the steps of the story: after the last one the kit misses its crash
		synctest.Test(t, func(t *testing.T) {
			k := waybilltest.New(t)
			j := &journey{fails: map[string]error{"execute ship": errNever}}
			h, err := j.host(k.Outbox(), slip.Config[*memstore.Tx]{})
			if err != nil {
				t.Fatal(err)
			}
			k.Consume(consumer.Subscription{Group: "host", Topics: slipTopics}, h.Handle, consumer.Config{GiveUp: slip.GivesUp})
			k.CrashAfter(n)
			startSlip(t, k, newTrip("reserve", "charge", "ship"))
			wantTrail(t, k, "execute reserve", "execute charge", "compensate charge", "compensate reserve")
			if got := slipEvents(k); len(got) != 6 {
				t.Errorf("crash after %d steps: events %q, want 6", n, got)
			}
		})
	}
}

// TestSlipCheck delivers each kind of message under every schedule of faults: the effect is once,
// and so is what follows.
func TestSlipCheck(t *testing.T) {
	t.Parallel()
	s := newTrip("reserve", "ship")
	synctest.Test(t, func(t *testing.T) {
		j := &journey{fails: map[string]error{"execute ship": errNever}}
		k := j.inMemory(t, s, slip.Config[*memstore.Tx]{})
		for _, m := range k.Messages("slip.reserve") {
			waybilltest.CheckOnce(t, func(f *waybilltest.Faults) waybilltest.Subject {
				store := f.MemStore()
				w, err := outbox.NewWriter(store, outbox.Config{Source: "host", Observer: quiet})
				if err != nil {
					t.Fatal(err)
				}
				h, err := (&journey{}).host(w, slip.Config[*memstore.Tx]{})
				if err != nil {
					t.Fatal(err)
				}
				return waybilltest.Subject{
					Deliver: waybilltest.Handle(store, "host", h.Handle),
					Message: m,
					Effect: func() any {
						states, err := store.MessageStates(context.Background(), s.ID()+"/waybill.slip.execute/1")
						return fmt.Sprint(store.Value("trail"), len(states), err)
					},
				}
			})
		}
	})
}

// TestSlipStale delivers copies when the inbox has forgotten: with Advance a host knows how far
// each slip has come; without, it does the activity again, and the next host does not.
func TestSlipStale(t *testing.T) {
	t.Parallel()
	past := []string{"execute reserve", "execute ship"}
	for name, tt := range map[string]struct {
		cfg  slip.Config[*memstore.Tx]
		want []string
	}{
		"with Advance": {slip.Config[*memstore.Tx]{Advance: advance}, past},
		"without":      {slip.Config[*memstore.Tx]{}, append(past, "execute reserve")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				j, s := &journey{}, newTrip("reserve", "ship")
				k := j.inMemory(t, s, tt.cfg)
				m := k.Messages("slip.reserve")[0]
				other, err := j.host(k.Outbox(), tt.cfg)
				if err != nil {
					t.Fatal(err)
				}
				// An inbox that remembers nothing is that of a consumer with another name.
				k.Consume(consumer.Subscription{Group: "forgetful", Topics: slipTopics[:1]}, other.Handle, consumer.Config{})
				k.Redeliver(m.ID)
				wantTrail(t, k, tt.want...)
				if n := len(k.DeadLetters()); n != 0 {
					t.Errorf("%d dead letters, want none", n)
				}
			})
		})
	}
}

// advance keeps the position of each slip in a value.
func advance(_ context.Context, tx *memstore.Tx, id string, position int) (bool, error) {
	if last, ok := tx.Get("position " + id).(int); ok && last >= position {
		return false, nil
	}
	tx.Set("position "+id, position)
	return true, nil
}
