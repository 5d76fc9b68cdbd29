package dashboard

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/schedule"
)

// noon is when the fake's schedules are looked at.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// secretive is a message whose payload and header values are nobody's business.
func secretive(id string) waybill.Message {
	return waybill.Message{
		ID: id, To: "billing", Type: "invoices.run", Source: "shop", Tenant: "default", DeliverAt: noon.Add(time.Hour),
		ContentType: "application/json", Payload: []byte(`{"secret-amount":1}`), Headers: map[string]string{"x-user": "secret-user"},
	}
}

// fullSchedules are an active schedule that is late, a paused one and one that has ended.
func fullSchedules() []schedule.State {
	plan := func(name string) schedule.Recurring {
		return schedule.Recurring{Name: name, Cron: "30 4 * * *", TimeZone: "UTC", Message: secretive(""), Start: noon.Add(-time.Hour), Overlap: schedule.Skip, CatchUp: time.Hour}
	}
	active := schedule.State{Recurring: plan("nightly <b>"), Version: 1, NextAt: noon.Add(-3 * time.Minute), LastAt: noon.Add(-time.Hour), LastID: "m1", Executions: 7, Skipped: 2}
	paused, ended := schedule.State{Recurring: plan("paused"), Version: 1}, schedule.State{Recurring: plan("ended"), Version: 1}
	paused.Paused, ended.MaxExecutions = true, 3
	return []schedule.State{ended, active, paused}
}

func (f *fake) ScheduleTime(context.Context) (time.Time, error) { return noon, f.fail }

func (f *fake) Schedules(_ context.Context, after string, limit int) (list []schedule.State, err error) {
	for _, s := range f.recurring {
		if s.Name > after && len(list) < limit {
			list = append(list, s)
		}
	}
	return list, f.fail
}

func (f *fake) Schedule(_ context.Context, name string) (schedule.State, error) {
	for _, s := range f.recurring {
		if s.Name == name {
			return s, f.fail
		}
	}
	return schedule.State{}, waybill.ErrNotFound
}

func (f *fake) ScheduledMessages(_ context.Context, after *schedule.ScheduledMessage, limit int) (list []schedule.ScheduledMessage, err error) {
	for _, m := range f.scheduled {
		if (after == nil || m.Position > after.Position) && len(list) < limit {
			list = append(list, m)
		}
	}
	return list, f.fail
}

func (f *fake) Scheduled(_ context.Context, id string) (waybill.Message, error) {
	for _, m := range f.scheduled {
		if m.ID == id && m.Cancellable {
			found := secretive(id)
			found.Tenant = m.Tenant
			return found, f.fail
		}
	}
	return waybill.Message{}, waybill.ErrNotFound
}

func (f *fake) ScheduleStats(context.Context) (schedule.Stats, error) {
	return schedule.Stats{Active: 1, Paused: 1, Ended: 1, Due: 1, Late: 3 * time.Minute}, f.fail
}

func (f *fake) operated(a deadletter.Entry) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, string(a.Action)+" "+a.Detail+" by "+a.By+": "+a.Why)
	return !f.overtaken, f.fail
}

func (f *fake) ChangeSchedule(_ context.Context, _ schedule.State, a deadletter.Entry) (bool, error) {
	return f.operated(a)
}

func (f *fake) DropSchedule(_ context.Context, _ string, a deadletter.Entry) (bool, error) {
	return f.operated(a)
}

func (f *fake) ScheduleMessage(_ context.Context, _ *waybill.Message, a deadletter.Entry) (bool, error) {
	return f.operated(a)
}

func (f *fake) DropScheduled(_ context.Context, _ string, a deadletter.Entry) (bool, error) {
	return f.operated(a)
}
