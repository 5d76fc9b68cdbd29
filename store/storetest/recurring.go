package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/schedule"
)

func recurringTests[Tx any]() []test[Tx] {
	needs := []need{schedules}
	return []test[Tx]{
		{"each occurrence once", recurringOnce[Tx], needs},
		{"several runners at once", recurringAtOnce[Tx], needs},
		{"of two with one version the first", recurringVersion[Tx], needs},
		{"removed and put again is another one", recurringAnew[Tx], needs},
		{"rolled back", recurringRolledBack[Tx], needs},
		{"put again", recurringPutAgain[Tx], needs},
		{"paused and resumed", recurringPaused[Tx], needs},
		{"run now", recurringRunNow[Tx], needs},
		{"ends", recurringEnds[Tx], needs},
		{"catches up", recurringCatchUp[Tx], needs},
		{"skips while the one before is pending", recurringSkip[Tx], needs},
		{"buffers one while the one before is pending", recurringBuffer[Tx], needs},
		{"over the changes of clocks", recurringClockChanges[Tx], needs},
		{"on a leap day", recurringLeapDay[Tx], needs},
		{"listed by page", recurringList[Tx], needs},
		{"one is held by an open transaction", recurringLocked[Tx], []need{schedules, concurrentWriters}},
		{"the id of an occurrence is held", recurringIDTaken[Tx], []need{schedules, concurrentWriters}},
		{"goes on after a restart", recurringRestart[Tx], []need{schedules, persists}},
	}
}

// hourly is a schedule that is due each hour after base.
func hourly(name string, base time.Time) schedule.Recurring {
	return schedule.Recurring{
		Name: name, Every: time.Hour, Start: base, CatchUp: 1000 * time.Hour,
		Message: waybill.Message{Topic: "orders", Type: "orders.sweep", Payload: []byte(`{}`)},
	}
}

// start is a time at which schedules of tests begin: soon, and on a whole second.
func start() time.Time { return time.Now().UTC().Truncate(time.Second).Add(30 * time.Minute) }

func (e *env[Tx]) put(r schedule.Recurring) {
	e.Helper()
	e.tx(func(tx Tx) error { return e.scheduler().Put(e.ctx, tx, r) })
}

// fire makes a runner enqueue what is due.
func (e *env[Tx]) fire() {
	e.Helper()
	r, err := schedule.NewRunner(e.source(), schedule.RunnerConfig{BatchSize: 2})
	e.must(err, "NewRunner")
	e.must(repeatConflicts(func() error { return r.RunOnce(e.ctx) }), "RunOnce")
}

// fired checks which occurrences, hours after the first, are in the outbox.
func (e *env[Tx]) fired(name string, base time.Time, hours ...int) {
	e.Helper()
	for h := range 30 {
		id := name + "@" + base.Add(time.Duration(h)*time.Hour).Format(time.RFC3339)
		if want, got := slices.Contains(hours, h), len(e.states(id)); (got == 1) != want || got > 1 {
			e.Errorf("occurrence %d (%s) is in %d places, want it there: %v", h, id, got, want)
		}
	}
}

func (e *env[Tx]) schedule(name string) schedule.State {
	e.Helper()
	s, err := e.schedules().Schedule(e.ctx, name)
	e.must(err, "Schedule")
	return s
}

func recurringOnce[Tx any](e *env[Tx]) {
	n, base := e.join("r1"), start()
	e.put(hourly("sweep", base))
	e.fire()
	e.fired("sweep", base)
	e.advance(time.Hour)
	e.fire()
	e.fire()
	e.fired("sweep", base, 0)
	id := "sweep@" + base.Format(time.RFC3339)
	c := n.claimOne(id)
	if !c.Message.Time.Equal(base) || c.Message.Source != "shop" || c.Message.Type != "orders.sweep" {
		e.Errorf("message = %+v, want the template with the planned time", c.Message)
	}
	s := e.schedule("sweep")
	if s.Executions != 1 || !s.LastAt.Equal(base) || s.LastID != id || !s.NextAt.Equal(base.Add(time.Hour)) || s.Status() != schedule.Active {
		e.Errorf("state = %+v, want one execution and the next an hour later", s)
	}
	n.settle(published(c)...)
	e.advance(time.Hour)
	e.fire()
	n.claimOne("sweep@" + base.Add(time.Hour).Format(time.RFC3339))
}

func recurringAtOnce[Tx any](e *env[Tx]) {
	const count = 5
	base := start()
	for i := range count {
		e.put(hourly(fmt.Sprintf("sweep%d", i), base))
	}
	e.advance(4 * time.Hour)
	e.concurrently(3, func(int) error {
		r, err := schedule.NewRunner(e.source(), schedule.RunnerConfig{BatchSize: 2})
		if err != nil {
			return err
		}
		return repeatConflicts(func() error { return r.RunOnce(e.ctx) })
	})
	e.fire()
	for i := range count {
		name := fmt.Sprintf("sweep%d", i)
		e.fired(name, base, 0, 1, 2, 3)
		if s := e.schedule(name); s.Executions != 4 || s.Skipped != 0 {
			e.Errorf("state = %+v, want 4 executions", s)
		}
	}
}

func recurringVersion[Tx any](e *env[Tx]) {
	base := start()
	e.put(hourly("sweep", base))
	old := e.schedule("sweep")
	for i, want := range []bool{true, false} {
		m := msg(fmt.Sprint("m", i), "")
		fired, err := e.source().FireSchedule(e.ctx, old, &m)
		if fired != want || err != nil {
			e.Errorf("FireSchedule() = %v, %v, want %v", fired, err, want)
		}
	}
	e.want(inspect.Pending, "m0")
	e.wantNowhere("m1")
}

func recurringAnew[Tx any](e *env[Tx]) {
	base := start()
	e.put(hourly("sweep", base))
	old := e.schedule("sweep")
	remove := func(tx Tx) (bool, error) { return e.scheduler().Remove(e.ctx, tx, "sweep") }
	if !e.ask(remove) || e.ask(remove) {
		e.Error("Remove() is not true once")
	}
	if _, err := e.schedules().Schedule(e.ctx, "sweep"); !errors.Is(err, waybill.ErrNotFound) {
		e.Errorf("Schedule() after Remove: %v, want ErrNotFound", err)
	}
	e.put(hourly("sweep", base))
	if fired, err := e.source().FireSchedule(e.ctx, old, nil); fired || err != nil {
		e.Errorf("FireSchedule() of the removed one = %v, %v, want false", fired, err)
	}
}

func recurringRolledBack[Tx any](e *env[Tx]) {
	tx := e.begin()
	e.must(e.scheduler().Put(e.ctx, tx, hourly("sweep", start())), "Put")
	e.rollback(tx)
	if _, err := e.schedules().Schedule(e.ctx, "sweep"); !errors.Is(err, waybill.ErrNotFound) {
		e.Errorf("Schedule() after a rollback: %v, want ErrNotFound", err)
	}
}

func recurringPutAgain[Tx any](e *env[Tx]) {
	base := start()
	r := hourly("sweep", base)
	e.put(r)
	e.advance(2 * time.Hour) // two are due
	r.Message.Subject, r.Start = "changed", time.Time{}
	e.put(r)
	e.fire()
	e.fired("sweep", base, 0, 1)
	if s := e.schedule("sweep"); s.Executions != 2 || s.Message.Subject != "changed" {
		e.Errorf("state = %+v, want what was due fired with the new message", s)
	}
	r.Every = 90 * time.Minute
	e.put(r)
	s := e.schedule("sweep")
	if s.Executions != 0 || s.NextAt.Equal(base.Add(2*time.Hour)) {
		e.Errorf("state = %+v, want other times to start over", s)
	}
}

func recurringPaused[Tx any](e *env[Tx]) {
	base := start()
	e.put(hourly("sweep", base))
	pause := func(tx Tx) (bool, error) { return e.scheduler().Pause(e.ctx, tx, "sweep") }
	resume := func(tx Tx) (bool, error) { return e.scheduler().Resume(e.ctx, tx, "sweep") }
	if !e.ask(pause) || e.ask(pause) {
		e.Error("Pause() is not true once")
	}
	e.advance(2 * time.Hour)
	e.fire()
	e.put(hourly("sweep", base)) // a program starts
	e.fire()
	if s := e.schedule("sweep"); s.Status() != schedule.Paused {
		e.Errorf("Status() = %s, want paused", s.Status())
	}
	if !e.ask(resume) || e.ask(resume) {
		e.Error("Resume() is not true once")
	}
	e.fire()
	e.fired("sweep", base)
	e.advance(time.Hour)
	e.fire()
	e.fired("sweep", base, 2)
}

func recurringRunNow[Tx any](e *env[Tx]) {
	base := start()
	e.put(hourly("sweep", base))
	var id string
	e.tx(func(tx Tx) (err error) {
		id, err = e.scheduler().RunNow(e.ctx, tx, "sweep")
		return err
	})
	e.want(inspect.Pending, id)
	if s := e.schedule("sweep"); s.Executions != 0 || !s.NextAt.Equal(base) {
		e.Errorf("state = %+v, want it as it was", s)
	}
	tx := e.begin()
	defer e.rollback(tx)
	if _, err := e.scheduler().RunNow(e.ctx, tx, "unknown"); !errors.Is(err, waybill.ErrNotFound) {
		e.Errorf("RunNow() of an unknown name: %v, want ErrNotFound", err)
	}
}

func recurringEnds[Tx any](e *env[Tx]) {
	base := start()
	counted, dated := hourly("counted", base), hourly("dated", base)
	counted.MaxExecutions, dated.End = 2, base.Add(150*time.Minute)
	e.put(counted)
	e.put(dated)
	e.advance(10 * time.Hour)
	e.fire()
	e.fired("counted", base, 0, 1)
	e.fired("dated", base, 0, 1, 2)
	for _, name := range []string{"counted", "dated"} {
		if s := e.schedule(name); s.Status() != schedule.Ended || s.Skipped != 0 {
			e.Errorf("state = %+v, want it ended", s)
		}
	}
}

func recurringCatchUp[Tx any](e *env[Tx]) {
	base := start()
	r := hourly("sweep", base)
	r.CatchUp = 160 * time.Minute
	e.put(r)
	e.advance(24 * time.Hour) // the last one due is number 23, half an hour ago
	e.fire()
	e.fired("sweep", base, 21, 22, 23)
	if s := e.schedule("sweep"); s.Executions != 3 || s.Skipped != 21 {
		e.Errorf("state = %+v, want 3 executions and 21 skipped", s)
	}
}

func recurringSkip[Tx any](e *env[Tx]) {
	n, base := e.join("r1"), start()
	r := hourly("sweep", base)
	r.Overlap = schedule.Skip
	e.put(r)
	e.advance(3 * time.Hour)
	e.fire()
	e.fired("sweep", base, 0)
	first := "sweep@" + base.Format(time.RFC3339)
	n.settle(failed(n.claimOne(first), time.Hour)) // it waits, which is pending, too
	e.advance(time.Hour)
	e.fire()
	e.fired("sweep", base, 0)
	n.settle(published(n.claimOne(first))...)
	e.gone(first)
	e.advance(time.Hour)
	e.fire()
	n.claimOne("sweep@" + base.Add(4*time.Hour).Format(time.RFC3339))
	if s := e.schedule("sweep"); s.Executions != 2 || s.Skipped != 3 {
		e.Errorf("state = %+v, want 2 executions and 3 skipped", s)
	}
}

func recurringBuffer[Tx any](e *env[Tx]) {
	n, base := e.join("r1"), start()
	r := hourly("sweep", base)
	r.Overlap = schedule.BufferOne
	e.put(r)
	e.advance(4 * time.Hour)
	e.fire()
	e.fired("sweep", base, 0)
	n.settle(published(n.claimOne("sweep@" + base.Format(time.RFC3339)))...)
	e.fire()
	n.claimOne("sweep@" + base.Add(3*time.Hour).Format(time.RFC3339))
	if s := e.schedule("sweep"); s.Executions != 2 || s.Skipped != 2 {
		e.Errorf("state = %+v, want 2 executions and 2 skipped", s)
	}
}

// clockChange returns when a zone's clocks are next set forward, or back.
func (e *env[Tx]) clockChange(zone *time.Location, forward bool) time.Time {
	offset := func(t time.Time) int { _, o := t.In(zone).Zone(); return o }
	for t := time.Now().UTC().Truncate(time.Hour).Add(72 * time.Hour); ; t = t.Add(time.Hour) {
		if before, after := offset(t.Add(-time.Hour)), offset(t); before != after && (after > before) == forward {
			return t
		}
	}
}

// recurringClockChanges plans half past the hour that is skipped, or repeated, and advances the
// store's clock: there is an occurrence the day before, and one on the day of the change.
func recurringClockChanges[Tx any](e *env[Tx]) {
	type planned struct {
		name string
		want []time.Time
	}
	var all []planned
	last := time.Now()
	for _, name := range []string{"Europe/Berlin", "America/New_York"} {
		zone, err := time.LoadLocation(name)
		e.must(err, "LoadLocation")
		for _, forward := range []bool{true, false} {
			change := e.clockChange(zone, forward)
			hour := change.Add(-time.Second).In(zone).Hour()
			want := []time.Time{change.Add(-24*time.Hour - 30*time.Minute), change.Add(-30 * time.Minute)}
			if forward {
				hour, want = hour+1, []time.Time{change.Add(-24*time.Hour + 30*time.Minute), change.Add(30 * time.Minute)}
			}
			p := planned{fmt.Sprintf("%s %v", name, forward), want}
			e.put(schedule.Recurring{
				Name: p.name, Cron: fmt.Sprintf("30 %d * * *", hour), TimeZone: name,
				Start: change.Add(-30 * time.Hour), End: change.Add(12 * time.Hour), CatchUp: 9000 * time.Hour, Message: waybill.Message{Topic: "orders"},
			})
			all = append(all, p)
			if change.After(last) {
				last = change
			}
		}
	}
	e.advance(time.Until(last.Add(24 * time.Hour)))
	e.fire()
	for _, p := range all {
		for _, at := range p.want {
			e.want(inspect.Pending, p.name+"@"+at.Format(time.RFC3339))
		}
		if s := e.schedule(p.name); s.Executions != len(p.want) {
			e.Errorf("%s: %d executions, want %d", p.name, s.Executions, len(p.want))
		}
	}
}

func recurringLeapDay[Tx any](e *env[Tx]) {
	year := time.Now().Year() + 1
	for year%4 != 0 || year%100 == 0 && year%400 != 0 {
		year++
	}
	noon := time.Date(year, time.February, 29, 12, 0, 0, 0, time.UTC)
	e.put(schedule.Recurring{Name: "leap", Cron: "0 12 29 2 *", Message: waybill.Message{Topic: "orders"}})
	if s := e.schedule("leap"); !s.NextAt.Equal(noon) {
		e.Errorf("NextAt = %v, want %v", s.NextAt, noon)
	}
	e.advance(time.Until(noon.Add(time.Minute)))
	e.fire()
	e.want(inspect.Pending, "leap@"+noon.Format(time.RFC3339))
}

func recurringList[Tx any](e *env[Tx]) {
	want := []string{"a", "b", "c"}
	for _, name := range want {
		e.put(hourly(name, start()))
	}
	var got []string
	for after := ""; ; after = got[len(got)-1] {
		page, err := e.schedules().Schedules(e.ctx, after, 2)
		e.must(err, "Schedules")
		for i := range page {
			got = append(got, page[i].Name)
		}
		if len(page) < 2 {
			break
		}
	}
	if !slices.Equal(got, want) {
		e.Errorf("Schedules() by page = %v, want %v", got, want)
	}
}

func recurringRestart[Tx any](e *env[Tx]) {
	base := start()
	e.put(hourly("sweep", base))
	e.later("a", time.Hour)
	before := e.schedule("sweep")
	e.reopen()
	after := e.schedule("sweep")
	if after.Version != before.Version || !after.NextAt.Equal(before.NextAt) || after.Message.Topic != "orders" {
		e.Errorf("state after a restart = %+v, want %+v", after, before)
	}
	e.advance(2 * time.Hour)
	e.release(1)
	e.fire()
	e.fired("sweep", base, 0, 1)
}

// recurringLocked: a transaction that stays open pauses one schedule.
func recurringLocked[Tx any](e *env[Tx]) {
	base := start()
	e.put(hourly("held", base))
	e.put(hourly("sweep", base))
	e.advance(time.Hour)
	s := e.schedule("held")
	s.Paused = true
	tx := e.begin()
	_, err := e.s.(schedule.Store[Tx]).WriteSchedule(e.ctx, tx, s)
	e.must(err, "WriteSchedule")
	e.fire()
	e.fired("sweep", base, 0)
	e.fired("held", base)
	e.rollback(tx)
	e.fire()
	e.fired("held", base, 0)
}

// recurringIDTaken: a transaction that stays open enqueues a message with the id of an occurrence.
func recurringIDTaken[Tx any](e *env[Tx]) {
	base := start()
	e.put(hourly("held", base))
	e.put(hourly("sweep", base))
	e.advance(time.Hour)
	tx := e.begin()
	e.enqueueIn(tx, false, msg("held@"+base.Format(time.RFC3339), ""))
	e.fire()
	e.fired("sweep", base, 0)
	e.rollback(tx)
	e.fire()
	e.fired("held", base, 0)
}
