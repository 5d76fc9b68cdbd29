package dashboard

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/traffic"
)

// reach says whose messages a route shows or changes. The zero value refuses users who are limited to a tenant: a
// new route does so until it specifies otherwise.
type reach int

const (
	ofAllTenants reach = iota // all tenants together: data that is not stored by tenant
	ofOneTenant               // the messages in the stores of the call
	ofNoTenant                // none: signing in and out
)

// stores are the stores that a request reads and changes.
type stores struct {
	outbox    Outbox
	letters   deadletter.Store
	inbox     inspect.Inbox          // nil if it is not shown
	sagas     saga.OperatorStore     // likewise
	schedules schedule.OperatorStore // likewise
	replays   Replays                // likewise; these are of all tenants
	relays    inspect.Relays         // likewise
	traffic   traffic.Store          // likewise
	audit     deadletter.Auditor     // nil if payloads are never shown
}

func storesOf(s Store) stores {
	of := stores{outbox: s, letters: s}
	of.inbox, _ = s.(inspect.Inbox)
	of.sagas, _ = s.(saga.OperatorStore)
	of.schedules, _ = s.(schedule.OperatorStore)
	of.replays, _ = s.(Replays)
	of.relays, _ = s.(inspect.Relays)
	of.traffic, _ = s.(traffic.Store)
	of.audit, _ = s.(deadletter.Auditor)
	return of
}

var errAllTenants = &problem{http.StatusForbidden, "Not allowed", "This is about the messages of all tenants; you may see those of one."}

// storesFor decides what a grant may access by a route: everything, what belongs to its tenant, or nothing.
func (d *Dashboard) storesFor(g Grant, of reach) (stores, error) {
	switch {
	case g.Tenant == "":
		return d.all, nil
	case of == ofOneTenant:
		return d.all.limitedTo(tenant(g.Tenant)), nil
	case of == ofNoTenant:
		return stores{}, nil
	}
	return stores{}, errAllTenants
}

func (s stores) limitedTo(t tenant) stores {
	one := stores{outbox: outboxOf{s.outbox, t}, letters: lettersOf{s.letters, t}}
	if s.inbox != nil {
		one.inbox = inboxOf{s.inbox, t}
	}
	if s.sagas != nil {
		one.sagas = sagasOf{s.sagas, t}
	}
	if s.schedules != nil {
		one.schedules = schedulesOf{s.schedules, t}
	}
	return one
}

// tenant is the tenant that a user is limited to.
type tenant string

func (t tenant) owns(name string) bool { return cmp.Or(name, waybill.DefaultTenant) == string(t) }

// narrow sets the tenant of a filter, and returns false if the filter specifies another one.
func (t tenant) narrow(filter *string) bool {
	asked := cmp.Or(*filter, string(t))
	*filter = string(t)
	return asked == string(t)
}

// own returns the elements of a list that belong to the tenant, whatever the store has filtered.
func own[T any](t tenant, list []T, nameOf func(*T) string) []T {
	return slices.DeleteFunc(list, func(one T) bool { return !t.owns(nameOf(&one)) })
}

// The types below embed no store: a method that a contract gains has to be limited before this compiles.

// outboxOf is one tenant's part of an outbox.
type outboxOf struct {
	all    Outbox
	tenant tenant
}

func stateTenant(s *inspect.MessageState) string { return s.Tenant }

func (o outboxOf) MessageStates(ctx context.Context, id string) ([]inspect.MessageState, error) {
	list, err := o.all.MessageStates(ctx, id)
	return own(o.tenant, list, stateTenant), err
}

func (o outboxOf) OutboxMessages(ctx context.Context, f inspect.Filter) ([]inspect.MessageState, error) {
	if !o.tenant.narrow(&f.Tenant) {
		return nil, nil
	}
	list, err := o.all.OutboxMessages(ctx, f)
	return own(o.tenant, list, stateTenant), err
}

func (o outboxOf) OutboxStats(context.Context) ([]inspect.Stats, error) { return nil, errAllTenants }

// inboxOf is one tenant's part of an inbox.
type inboxOf struct {
	all    inspect.Inbox
	tenant tenant
}

func (i inboxOf) InboxStates(ctx context.Context, id, consumer string) ([]inspect.InboxState, error) {
	list, err := i.all.InboxStates(ctx, id, consumer)
	return own(i.tenant, list, func(s *inspect.InboxState) string { return s.Tenant }), err
}

// lettersOf are one tenant's dead letters.
type lettersOf struct {
	all    deadletter.Store
	tenant tenant
}

func (l lettersOf) DeadLetters(ctx context.Context, f deadletter.Filter) ([]deadletter.Letter, error) {
	if !l.tenant.narrow(&f.Tenant) {
		return nil, nil
	}
	list, err := l.all.DeadLetters(ctx, f)
	return own(l.tenant, list, func(one *deadletter.Letter) string { return one.Message.Tenant }), err
}

// DeadLetter returns a dead letter. Those of other tenants are not found; numbers are never reused.
func (l lettersOf) DeadLetter(ctx context.Context, number int64) (deadletter.Letter, error) {
	letter, err := l.all.DeadLetter(ctx, number)
	if err == nil && !l.tenant.owns(letter.Message.Tenant) {
		return deadletter.Letter{}, waybill.ErrNotFound
	}
	return letter, err
}

func (l lettersOf) DeadLetterGroups(context.Context, int) ([]deadletter.Group, error) {
	return nil, errAllTenants
}

// change changes a dead letter of the tenant.
func (l lettersOf) change(ctx context.Context, do func(context.Context, int64, deadletter.Act) (bool, error), number int64, act deadletter.Act) (bool, error) {
	if _, err := l.DeadLetter(ctx, number); err != nil {
		return false, err
	}
	return do(ctx, number, act)
}

func (l lettersOf) RequeueDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return l.change(ctx, l.all.RequeueDeadLetter, number, act)
}

func (l lettersOf) ResolveDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return l.change(ctx, l.all.ResolveDeadLetter, number, act)
}

func (l lettersOf) DiscardDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return l.change(ctx, l.all.DiscardDeadLetter, number, act)
}

func (l lettersOf) RestoreDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return l.change(ctx, l.all.RestoreDeadLetter, number, act)
}

func (l lettersOf) DeleteDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return l.change(ctx, l.all.DeleteDeadLetter, number, act)
}

func (l lettersOf) EditDeadLetter(ctx context.Context, number int64, edit deadletter.Edit, act deadletter.Act) (string, error) {
	if _, err := l.DeadLetter(ctx, number); err != nil {
		return "", err
	}
	return l.all.EditDeadLetter(ctx, number, edit, act)
}

// AuditLog returns the entries about dead letters of the tenant. The store does not know the tenant of an entry
// about anything else, or about a deleted dead letter.
func (l lettersOf) AuditLog(ctx context.Context, f deadletter.AuditFilter) ([]deadletter.Entry, error) {
	list, err := l.all.AuditLog(ctx, f)
	known := map[int64]bool{0: false}
	return slices.DeleteFunc(list, func(e deadletter.Entry) bool {
		owned, asked := known[e.Letter]
		if !asked {
			_, missing := l.DeadLetter(ctx, e.Letter)
			owned = missing == nil
			known[e.Letter] = owned
		}
		return !owned
	}), err
}

// sagasOf are one tenant's instances of sagas.
type sagasOf struct {
	all    saga.OperatorStore
	tenant tenant
}

func (s sagasOf) Sagas(ctx context.Context, f saga.Filter) ([]saga.Instance, error) {
	if !s.tenant.narrow(&f.Tenant) {
		return nil, nil
	}
	list, err := s.all.Sagas(ctx, f)
	return own(s.tenant, list, func(in *saga.Instance) string { return in.Tenant }), err
}

func (s sagasOf) Saga(ctx context.Context, id saga.ID) (saga.Instance, error) {
	if !s.tenant.owns(id.Tenant) {
		return saga.Instance{}, waybill.ErrNotFound
	}
	return s.all.Saga(ctx, id)
}

func (s sagasOf) SagaLog(ctx context.Context, id saga.ID, after int64, limit int) ([]saga.Entry, error) {
	if !s.tenant.owns(id.Tenant) {
		return nil, nil
	}
	return s.all.SagaLog(ctx, id, after, limit)
}

func (s sagasOf) SagaCounts(context.Context) ([]saga.Count, error) { return nil, errAllTenants }

func (s sagasOf) ChangeSaga(ctx context.Context, in saga.Instance, e saga.Entry, m *waybill.Message, a deadletter.Entry) (bool, error) {
	if !s.tenant.owns(in.Tenant) {
		return false, waybill.ErrNotFound
	}
	return s.all.ChangeSaga(ctx, in, e, m, a)
}

// schedulesOf are one tenant's schedules and scheduled messages. The store lists them for all tenants only, so that
// a list of few among many reads all of them, within the timeout of a request.
type schedulesOf struct {
	all    schedule.OperatorStore
	tenant tenant
}

const scheduledAtOnce = 1000 // messages, which come without payloads

func (s schedulesOf) ScheduleTime(ctx context.Context) (time.Time, error) {
	return s.all.ScheduleTime(ctx)
}

func (s schedulesOf) Schedules(ctx context.Context, after string, limit int) (found []schedule.State, err error) {
	for len(found) < limit {
		list, err := s.all.Schedules(ctx, after, limit)
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			return found, nil
		}
		after = list[len(list)-1].Name
		found = append(found, own(s.tenant, list, func(one *schedule.State) string { return one.Message.Tenant })...)
	}
	return found[:limit], nil
}

func (s schedulesOf) Schedule(ctx context.Context, name string) (schedule.State, error) {
	one, err := s.all.Schedule(ctx, name)
	if err == nil && !s.tenant.owns(one.Message.Tenant) {
		return schedule.State{}, waybill.ErrNotFound
	}
	return one, err
}

func (s schedulesOf) ScheduledMessages(ctx context.Context, after *schedule.ScheduledMessage, limit int) (found []schedule.ScheduledMessage, err error) {
	for len(found) < limit {
		list, err := s.all.ScheduledMessages(ctx, after, scheduledAtOnce)
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			return found, nil
		}
		last := list[len(list)-1]
		after = &last
		found = append(found, own(s.tenant, list, func(m *schedule.ScheduledMessage) string { return m.Tenant })...)
	}
	return found[:limit], nil
}

func (s schedulesOf) Scheduled(ctx context.Context, id string) (waybill.Message, error) {
	m, err := s.all.Scheduled(ctx, id)
	if err == nil && !s.tenant.owns(m.Tenant) {
		return waybill.Message{}, waybill.ErrNotFound
	}
	return m, err
}

func (s schedulesOf) ScheduleStats(context.Context) (schedule.Stats, error) {
	return schedule.Stats{}, errAllTenants
}

func (s schedulesOf) ChangeSchedule(ctx context.Context, one schedule.State, a deadletter.Entry) (bool, error) {
	if _, err := s.Schedule(ctx, one.Name); err != nil {
		return false, err
	}
	return s.all.ChangeSchedule(ctx, one, a)
}

func (s schedulesOf) DropSchedule(ctx context.Context, name string, a deadletter.Entry) (bool, error) {
	_, err := s.Schedule(ctx, name)
	if err == nil {
		return s.all.DropSchedule(ctx, name, a)
	}
	return false, unlessMissing(err)
}

func (s schedulesOf) ScheduleMessage(ctx context.Context, m *waybill.Message, a deadletter.Entry) (bool, error) {
	if !s.tenant.owns(m.Tenant) {
		return false, waybill.ErrNotFound
	}
	return s.all.ScheduleMessage(ctx, m, a)
}

func (s schedulesOf) DropScheduled(ctx context.Context, id string, a deadletter.Entry) (bool, error) {
	_, err := s.Scheduled(ctx, id)
	if err == nil {
		return s.all.DropScheduled(ctx, id, a)
	}
	return false, unlessMissing(err)
}

// unlessMissing returns err, or nil if it says that something does not exist.
func unlessMissing(err error) error {
	if errors.Is(err, waybill.ErrNotFound) {
		return nil
	}
	return err
}
