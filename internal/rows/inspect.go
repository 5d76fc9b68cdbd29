package rows

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
)

// place is a table, or the part of one, whose messages have one status.
type place struct {
	status inspect.Status
	states func(ctx context.Context, t *Tx, f listFilter) ([]inspect.MessageState, error)
	sums   func(ctx context.Context, t *Tx) ([]Sum, error)
}

// listFilter says which messages of a place are listed, and in which order.
type listFilter struct {
	inspect.Filter
	newest bool // by when they were published, the newest first
	limit  int  // 0 is no limit
}

// conditions hold for the messages of a filter.
func (c ofRow[V]) conditions(f inspect.Filter, now time.Time) []Condition[V] {
	list := c.Topic.isIf(f.Topic)
	list = append(list, c.Key.isIf(f.Key)...)
	list = append(list, c.Tenant.isIf(f.Tenant)...)
	list = append(list, c.Correlation.isIf(f.CorrelationID)...)
	list = append(list, c.MessageID.isIf(f.MessageID)...)
	if f.OlderThan > 0 {
		list = append(list, c.EnqueuedAt.atMost(now.Add(-f.OlderThan)))
	}
	return append(list, contains(f.Text, c.MessageID, c.Key, c.Correlation)...)
}

// part is a place in a table: rows of which conditions hold.
func part[K any, V based](table func(*Tx) Table[K, V], c ofRow[V], status inspect.Status, state func(V) inspect.MessageState, conditions func(now time.Time) []Condition[V]) place {
	since := SinceEnqueued
	if unpublished(status) {
		since = SinceDue
	}
	return place{
		status: status,
		states: func(ctx context.Context, t *Tx, f listFilter) ([]inspect.MessageState, error) {
			q := where(append(conditions(t.Now), c.conditions(f.Filter, t.Now)...)...).
				sorted(c.EnqueuedAt.rising(), c.MessageID.rising(), c.Destination.rising()).first(f.limit)
			if f.newest {
				q.Order = []Order[V]{newest[V]()}
			}
			q.Lean = true
			found, err := table(t).Find(ctx, q)
			states := make([]inspect.MessageState, len(found))
			for i, r := range found {
				states[i] = state(r)
				states[i].Status = status
			}
			return states, err
		},
		sums: func(ctx context.Context, t *Tx) ([]Sum, error) {
			return table(t).Sums(ctx, since, conditions(t.Now)...)
		},
	}
}

// newest is the order of what was published; other rows have none.
func newest[V based]() Order[V] {
	at := func(v V) time.Time {
		if a, ok := any(v).(*Archived); ok {
			return a.PublishedAt
		}
		return time.Time{}
	}
	return TimeColumn[V]{archived.PublishedAt.Name, at}.falling()
}

func unpublished(st inspect.Status) bool {
	return st == inspect.Pending || st == inspect.Waiting || st == inspect.Scheduled
}

func none[V any](time.Time) []Condition[V] { return nil }

// undead are the places of messages that are no dead letters.
func undead() []place {
	pending := func(t *Tx) Table[int64, *Row] { return t.Outbox }
	due := func(now time.Time) []Condition[*Row] { return []Condition[*Row]{ready.DeliverAt.atMost(micros(now))} }
	later := func(now time.Time) []Condition[*Row] { return []Condition[*Row]{ready.DeliverAt.above(micros(now))} }
	return []place{
		part(pending, ready, inspect.Pending, (*Row).state, due),
		part(pending, ready, inspect.Scheduled, (*Row).scheduledState, later),
		part(func(t *Tx) Table[Place, *Waiting] { return t.Waiting }, waits.ofRow, inspect.Waiting, (*Waiting).state, none[*Waiting]),
		part(func(t *Tx) Table[int64, *Row] { return t.Scheduled }, ready, inspect.Scheduled, (*Row).scheduledState, none[*Row]),
		part(func(t *Tx) Table[any, *Archived] { return t.Archive }, archived.ofRow, inspect.Published, (*Archived).state, none[*Archived]),
	}
}

// dead is a place of dead letters.
func dead(status inspect.Status, conditions ...Condition[*Letter]) place {
	return part(func(t *Tx) Table[int64, *Letter] { return t.Letters }, letters.ofRow, status, (*Letter).state,
		func(time.Time) []Condition[*Letter] { return slices.Clone(conditions) })
}

// listed are the places of the view "messages" of the SQL stores: its dead letters are the relay's.
func listed() []place {
	relays, kept := letters.Origin.is(deadletter.FromRelay), letters.State.notIn(deadletter.Discarded)
	return append(undead(),
		dead(inspect.Dead, relays, kept, letters.Failed.is(false)),
		dead(inspect.Failed, relays, kept, letters.Failed.is(true)),
		dead(inspect.Discarded, relays, letters.State.is(deadletter.Discarded)),
	)
}

// counted are the places that statistics count: of the dead letters the open ones, of relays and consumers, and
// those of the relay that were discarded.
func counted() []place {
	open, idle := letters.State.is(deadletter.Open), letters.Requeued.is(false)
	return append(undead(),
		dead(inspect.Dead, open, idle, letters.Failed.is(false)),
		dead(inspect.Failed, open, idle, letters.Failed.is(true)),
		dead(inspect.Discarded, letters.Origin.is(deadletter.FromRelay), letters.State.is(deadletter.Discarded)),
	)
}

func (r *Row) state() inspect.MessageState {
	m := &r.Message
	return inspect.MessageState{
		ID: m.ID, Topic: m.Address(), Destination: r.Destination, Type: m.Type, Source: m.Source, Tenant: m.Tenant, Key: m.Key,
		EnqueuedAt: r.EnqueuedAt,
	}
}

func (r *Row) scheduledState() inspect.MessageState {
	st, due := r.state(), r.Message.DeliverAt
	st.DueAt = &due
	return st
}

func (w *Waiting) state() inspect.MessageState {
	st := w.Row.state()
	st.Attempts, st.Error = w.Attempts, w.Error
	if !w.DueAt.IsZero() {
		st.DueAt = &w.DueAt
	}
	return st
}

func (a *Archived) state() inspect.MessageState {
	st := a.Row.state()
	st.Attempts, st.PublishedAt = a.Attempts, &a.PublishedAt
	return st
}

func (l *Letter) state() inspect.MessageState {
	st := l.Row.state()
	st.Attempts, st.Error = l.Attempts, l.Error
	return st
}

// states returns the messages of the places that wanted is true for.
func (e *Engine[S]) states(ctx context.Context, wanted func(inspect.Status) bool, f listFilter) ([]inspect.MessageState, error) {
	states := []inspect.MessageState{}
	err := e.run(ctx, func(ctx context.Context, t *Tx) error {
		states = states[:0]
		for _, p := range listed() {
			if !wanted(p.status) {
				continue
			}
			found, err := p.states(ctx, t, f)
			if err != nil {
				return err
			}
			states = append(states, found...)
		}
		return nil
	})
	return states, err
}

// MessageStates implements [inspect.Outbox]. Round trips: 8.
func (e *Engine[S]) MessageStates(ctx context.Context, id string) ([]inspect.MessageState, error) {
	if id == "" { // which would be no filter
		return []inspect.MessageState{}, nil
	}
	states, err := e.states(ctx, func(inspect.Status) bool { return true }, listFilter{Filter: inspect.Filter{MessageID: id}})
	slices.SortFunc(states, func(a, b inspect.MessageState) int {
		return cmp.Or(a.EnqueuedAt.Compare(b.EnqueuedAt), cmp.Compare(a.Destination, b.Destination))
	})
	return states, err
}

// OutboxMessages implements [inspect.Outbox]. Round trips: 4 at most.
func (e *Engine[S]) OutboxMessages(ctx context.Context, f inspect.Filter) ([]inspect.MessageState, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	wanted := func(st inspect.Status) bool { return st == f.Status || f.Status == "" && unpublished(st) }
	limit := cmp.Or(f.Limit, inspect.DefaultLimit)
	list, err := e.states(ctx, wanted, listFilter{f, f.Status == inspect.Published, limit})
	slices.SortStableFunc(list, func(a, b inspect.MessageState) int {
		if f.Status == inspect.Published {
			return b.PublishedAt.Compare(*a.PublishedAt)
		}
		return cmp.Or(a.EnqueuedAt.Compare(b.EnqueuedAt), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Destination, b.Destination))
	})
	return list[:min(len(list), limit)], err
}

// OutboxStats implements [inspect.Outbox]. Round trips: 8.
func (e *Engine[S]) OutboxStats(ctx context.Context) ([]inspect.Stats, error) {
	return e.count(ctx, func(inspect.Status) bool { return true })
}

// OutboxBacklog implements [inspect.Outbox]. Round trips: 2.
func (e *Engine[S]) OutboxBacklog(ctx context.Context) ([]inspect.Stats, error) {
	return e.count(ctx, func(st inspect.Status) bool { return st == inspect.Pending || st == inspect.Waiting })
}

func (e *Engine[S]) count(ctx context.Context, counts func(inspect.Status) bool) ([]inspect.Stats, error) {
	var stats []inspect.Stats
	err := e.run(ctx, func(ctx context.Context, t *Tx) error {
		stats = []inspect.Stats{}
		for _, p := range counted() {
			if !counts(p.status) {
				continue
			}
			sums, err := p.sums(ctx, t)
			if err != nil {
				return err
			}
			for _, s := range sums {
				stats = append(stats, inspect.Stats{Topic: s.Topic, Status: p.status, Consumer: s.Consumer, Count: s.Count, Oldest: t.Now.Sub(s.Oldest)})
			}
		}
		return nil
	})
	return merged(stats), err
}

// merged sorts stats by topic, status and consumer, and adds up those of one status in two places.
func merged(stats []inspect.Stats) []inspect.Stats {
	slices.SortFunc(stats, func(a, b inspect.Stats) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Consumer, b.Consumer))
	})
	list := []inspect.Stats{}
	for _, st := range stats {
		if n := len(list); n > 0 && list[n-1].Topic == st.Topic && list[n-1].Status == st.Status && list[n-1].Consumer == st.Consumer {
			list[n-1].Count += st.Count
			list[n-1].Oldest = max(list[n-1].Oldest, st.Oldest)
			continue
		}
		list = append(list, st)
	}
	return list
}
