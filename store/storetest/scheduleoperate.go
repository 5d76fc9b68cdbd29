package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/schedule"
)

func scheduleOperatorTests[Tx any]() []test[Tx] {
	needs := []need{schedules}
	return []test[Tx]{
		{"paused and resumed", operatorPause[Tx], needs},
		{"run now", operatorRunNow[Tx], needs},
		{"removed", operatorRemove[Tx], needs},
		{"cancelled", operatorCancel[Tx], needs},
		{"changed at the same time", operatorConflict[Tx], needs},
		{"by nobody", operatorNobody[Tx], needs},
		{"messages by their time", operatorMessages[Tx], needs},
		{"counted", operatorStats[Tx], needs},
	}
}

var ann = deadletter.Act{By: "ann", Why: "because"}

func (e *env[Tx]) operator() *schedule.Operator {
	e.Helper()
	o, err := schedule.NewOperator(e.schedules(), schedule.OperatorConfig{})
	e.must(err, "NewOperator")
	return o
}

// once does something that is true the first time and false the second, and expects one entry
// in the audit log about it.
func (e *env[Tx]) once(what string, want deadletter.Entry, do func() (bool, error)) {
	e.Helper()
	for _, want := range []bool{true, false} {
		if done, err := do(); done != want || err != nil {
			e.Errorf("%s = %v, %v, want %v", what, done, err, want)
		}
	}
	e.audited(want)
}

// audited expects one entry of ann's about an action.
func (e *env[Tx]) audited(want deadletter.Entry) {
	e.Helper()
	entries := e.audit(deadletter.AuditFilter{Action: want.Action})
	if len(entries) != 1 {
		e.Fatalf("%d entries about %s, want 1", len(entries), want.Action)
	}
	want.By, want.Why, want.Number, want.At = ann.By, ann.Why, entries[0].Number, entries[0].At
	if entries[0] != want {
		e.Errorf("entry = %+v, want %+v", entries[0], want)
	}
}

func operatorPause[Tx any](e *env[Tx]) {
	base, o := start(), e.operator()
	e.put(hourly("sweep", base))
	e.once("Pause()", deadletter.Entry{Action: schedule.ActPause, Detail: "sweep"}, func() (bool, error) { return o.Pause(e.ctx, "sweep", ann) })
	e.advance(2 * time.Hour)
	e.fire()
	e.fired("sweep", base)
	e.once("Resume()", deadletter.Entry{Action: schedule.ActResume, Detail: "sweep"}, func() (bool, error) { return o.Resume(e.ctx, "sweep", ann) })
	e.fire()
	e.fired("sweep", base) // what was planned meanwhile is left out, by the store's clock
	e.advance(time.Hour)
	e.fire()
	e.fired("sweep", base, 2)
	for name, change := range map[string]func() (bool, error){
		"Pause":  func() (bool, error) { return o.Pause(e.ctx, "unknown", ann) },
		"Resume": func() (bool, error) { return o.Resume(e.ctx, "unknown", ann) },
	} {
		if _, err := change(); !errors.Is(err, waybill.ErrNotFound) {
			e.Errorf("%s() of an unknown name: %v, want ErrNotFound", name, err)
		}
	}
}

func operatorRunNow[Tx any](e *env[Tx]) {
	n, base, o := e.join("r1"), start(), e.operator()
	e.put(hourly("sweep", base))
	was := e.schedule("sweep")
	id, err := o.RunNow(e.ctx, "sweep", ann)
	e.must(err, "RunNow")
	e.audited(deadletter.Entry{Action: schedule.ActRun, MessageID: id, Detail: "sweep"})
	e.want(inspect.Scheduled, id)
	e.release(1)
	c := n.claimOne(id)
	if m := c.Message; c.DelayFor != 0 || !strings.HasPrefix(m.ID, "sweep@") || m.Source != "shop" || m.Type != "orders.sweep" || m.Tenant == "" {
		e.Errorf("message = %+v, want that of the schedule", m)
	}
	if s := e.schedule("sweep"); s.Version != was.Version || s.Executions != 0 || !s.NextAt.Equal(base) {
		e.Errorf("state = %+v, want it as it was", s)
	}
	if _, err := o.RunNow(e.ctx, "unknown", ann); !errors.Is(err, waybill.ErrNotFound) {
		e.Errorf("RunNow() of an unknown name: %v, want ErrNotFound", err)
	}
}

func operatorRemove[Tx any](e *env[Tx]) {
	o := e.operator()
	e.put(hourly("sweep", start()))
	e.once("Remove()", deadletter.Entry{Action: schedule.ActRemove, Detail: "sweep"}, func() (bool, error) { return o.Remove(e.ctx, "sweep", ann) })
	e.advance(3 * time.Hour)
	e.fire()
	if list, err := e.schedules().Schedules(e.ctx, "", 10); len(list) != 0 || err != nil {
		e.Errorf("Schedules() = %v, %v, want none", list, err)
	}
}

func operatorCancel[Tx any](e *env[Tx]) {
	o := e.operator()
	e.later("a", time.Hour)
	e.once("Cancel()", deadletter.Entry{Action: schedule.ActCancel, MessageID: "a"}, func() (bool, error) { return o.Cancel(e.ctx, "a", ann) })
	e.advance(2 * time.Hour)
	e.release(0)
	e.wantNowhere("a")
}

// operatorConflict: of two changes of one version the first is kept, and recorded.
func operatorConflict[Tx any](e *env[Tx]) {
	e.put(hourly("sweep", start()))
	s := e.schedule("sweep")
	for _, want := range []bool{true, false} {
		changed, err := e.schedules().ChangeSchedule(e.ctx, s, deadletter.Entry{Action: schedule.ActPause, By: ann.By, Why: ann.Why, Detail: "sweep"})
		if changed != want || err != nil {
			e.Errorf("ChangeSchedule() = %v, %v, want %v", changed, err, want)
		}
	}
	e.audited(deadletter.Entry{Action: schedule.ActPause, Detail: "sweep"})
}

// operatorNobody: an act that is refused changes nothing.
func operatorNobody[Tx any](e *env[Tx]) {
	o, nobody := e.operator(), deadletter.Act{By: " "}
	e.put(hourly("sweep", start()))
	e.later("a", time.Hour)
	was := e.schedule("sweep")
	for name, change := range map[string]func() error{
		"Pause":          func() error { _, err := o.Pause(e.ctx, "sweep", nobody); return err },
		"Resume":         func() error { _, err := o.Resume(e.ctx, "sweep", nobody); return err },
		"RunNow":         func() error { _, err := o.RunNow(e.ctx, "sweep", nobody); return err },
		"Remove":         func() error { _, err := o.Remove(e.ctx, "sweep", nobody); return err },
		"Cancel":         func() error { _, err := o.Cancel(e.ctx, "a", nobody); return err },
		"ChangeSchedule": func() error { _, err := e.schedules().ChangeSchedule(e.ctx, was, deadletter.Entry{}); return err },
		"DropScheduled":  func() error { _, err := e.schedules().DropScheduled(e.ctx, "a", deadletter.Entry{}); return err },
	} {
		var invalid *waybill.InvalidError
		if err := change(); !errors.As(err, &invalid) || invalid.Field != "by" {
			e.Errorf("%s() by nobody: %v, want an error that names by", name, err)
		}
	}
	if s := e.schedule("sweep"); s.Version != was.Version {
		e.Errorf("state = %+v, want it as it was", s)
	}
	e.want(inspect.Scheduled, "a")
	if entries := e.audit(deadletter.AuditFilter{}); len(entries) != 0 {
		e.Errorf("entries = %+v, want none", entries)
	}
}

func operatorMessages[Tx any](e *env[Tx]) {
	n, due := e.join("r1"), time.Now().Add(3*time.Hour).Round(time.Microsecond)
	e.later("b", 2*time.Hour)
	e.later("a", time.Hour)
	for i := range 3 { // at one time
		e.tx(func(tx Tx) error {
			_, err := e.scheduler().At(e.ctx, tx, waybill.Message{ID: fmt.Sprint("c", i), To: "billing", Tenant: "acme"}, due)
			return err
		})
	}
	n.scheduled(msg("d", "k"), 4*time.Hour) // by DeliverAt, without a handle
	var list []schedule.ScheduledMessage
	var after *schedule.ScheduledMessage
	for range 4 {
		page, err := e.schedules().ScheduledMessages(e.ctx, after, 2)
		e.must(err, "ScheduledMessages")
		for i := range page {
			list, after = append(list, page[i]), &page[i]
		}
	}
	var order []string
	for _, m := range list {
		order = append(order, m.ID)
		if m.Cancellable != (m.ID != "d") {
			e.Errorf("Cancellable of %s = %v", m.ID, m.Cancellable)
		}
	}
	if len(order) == 6 {
		slices.Sort(order[2:5])
	}
	if got := strings.Join(order, " "); got != "a b c0 c1 c2 d" {
		e.Fatalf("by pages: %s, want a b c0 c1 c2 d", got)
	}
	if m := list[0]; m.Topic != "orders" || m.Type == "" || m.Source != "shop" || m.Tenant == "" || m.Key != "k" {
		e.Errorf("message = %+v", m)
	}
	if m := list[2]; m.Topic != "billing" || m.Type != "billing" || m.Tenant != "acme" || !m.DueAt.Equal(due) || m.DueAt.Location() != time.UTC {
		e.Errorf("message = %+v, want one to billing, due %v", m, due)
	}
}

func operatorStats[Tx any](e *env[Tx]) {
	stats := func() schedule.Stats {
		e.Helper()
		got, err := e.schedules().ScheduleStats(e.ctx)
		e.must(err, "ScheduleStats")
		return got
	}
	if got := stats(); got != (schedule.Stats{}) {
		e.Errorf("stats of nothing = %+v", got)
	}
	base := start()
	for _, name := range []string{"a", "b", "paused"} {
		e.put(hourly(name, base))
	}
	ends := hourly("ended", base)
	ends.MaxExecutions = 1
	e.put(ends)
	e.later("m1", time.Hour)
	e.later("m2", 24*time.Hour)
	if _, err := e.operator().Pause(e.ctx, "paused", ann); err != nil {
		e.Fatal(err)
	}
	if got := stats(); got != (schedule.Stats{Active: 3, Paused: 1}) {
		e.Errorf("stats before anything is due = %+v", got)
	}
	e.advance(30*time.Minute + time.Second)
	e.fire()
	e.advance(2 * time.Hour)
	got := stats()
	near := func(got, want time.Duration) bool { return got > want-time.Minute && got < want+10*time.Minute }
	if !near(got.Late, time.Hour) || !near(got.LateMessages, 90*time.Minute) {
		e.Errorf("late = %v, %v, want an hour and an hour and a half", got.Late, got.LateMessages)
	}
	got.Late, got.LateMessages = 0, 0
	if got != (schedule.Stats{Active: 2, Paused: 1, Ended: 1, Due: 2, DueMessages: 1}) {
		e.Errorf("stats = %+v, want two schedules and a message due", got)
	}
	now, err := e.schedules().ScheduleTime(e.ctx)
	e.must(err, "ScheduleTime")
	e.wantRecent("ScheduleTime()", now, 150*time.Minute)
}
