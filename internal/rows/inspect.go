package rows

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/outbox"
)

// place is a table, or the part of one, whose messages have one status.
type place struct {
	status outbox.Status
	states func(ctx context.Context, t *Tx, f listFilter) ([]outbox.State, error)
	sums   func(ctx context.Context, t *Tx) ([]Sum, error)
}

// listFilter says which messages of a place are listed, and in which order.
type listFilter struct {
	outbox.Filter
	newest bool // by when they were published, the newest first
	limit  int  // 0 is no limit
}

// conditions hold for the messages of a filter.
func (c ofRow[V]) conditions(f outbox.Filter, now time.Time) []Condition[V] {
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
func part[K any, V based](table func(*Tx) Table[K, V], c ofRow[V], status outbox.Status, state func(V) outbox.State, conditions func(now time.Time) []Condition[V]) place {
	since := SinceEnqueued
	if unpublished(status) {
		since = SinceDue
	}
	return place{
		status: status,
		states: func(ctx context.Context, t *Tx, f listFilter) ([]outbox.State, error) {
			q := where(append(conditions(t.Now), c.conditions(f.Filter, t.Now)...)...).
				sorted(c.EnqueuedAt.rising(), c.MessageID.rising(), c.Destination.rising()).first(f.limit)
			if f.newest {
				q.Order = []Order[V]{newest[V]()}
			}
			q.Lean = true
			found, err := table(t).Find(ctx, q)
			states := make([]outbox.State, len(found))
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

func unpublished(st outbox.Status) bool {
	return st == outbox.Pending || st == outbox.Waiting || st == outbox.Scheduled
}

func none[V any](time.Time) []Condition[V] { return nil }

// undead are the places of messages that are no dead letters.
func undead() []place {
	pending := func(t *Tx) Table[int64, *Row] { return t.Outbox }
	due := func(now time.Time) []Condition[*Row] { return []Condition[*Row]{ready.DeliverAt.atMost(micros(now))} }
	later := func(now time.Time) []Condition[*Row] { return []Condition[*Row]{ready.DeliverAt.above(micros(now))} }
	return []place{
		part(pending, ready, outbox.Pending, (*Row).state, due),
		part(pending, ready, outbox.Scheduled, (*Row).scheduledState, later),
		part(func(t *Tx) Table[Place, *Waiting] { return t.Waiting }, waits.ofRow, outbox.Waiting, (*Waiting).state, none[*Waiting]),
		part(func(t *Tx) Table[int64, *Row] { return t.Scheduled }, ready, outbox.Scheduled, (*Row).scheduledState, none[*Row]),
		part(func(t *Tx) Table[any, *Archived] { return t.Archive }, archived.ofRow, outbox.Published, (*Archived).state, none[*Archived]),
	}
}

// dead is a place of dead letters.
func dead(status outbox.Status, conditions ...Condition[*Letter]) place {
	return part(func(t *Tx) Table[int64, *Letter] { return t.Letters }, letters.ofRow, status, (*Letter).state,
		func(time.Time) []Condition[*Letter] { return slices.Clone(conditions) })
}

// listed are the places of the view "messages" of the SQL stores: its dead letters are the relay's.
func listed() []place {
	relays, kept := letters.Origin.is(deadletter.FromRelay), letters.State.notIn(deadletter.Discarded)
	return append(undead(),
		dead(outbox.Dead, relays, kept, letters.Failed.is(false)),
		dead(outbox.Failed, relays, kept, letters.Failed.is(true)),
		dead(outbox.Discarded, relays, letters.State.is(deadletter.Discarded)),
	)
}

// counted are the places that statistics count: of the dead letters the open ones, of relays and consumers, and
// those of the relay that were discarded.
func counted() []place {
	open, idle := letters.State.is(deadletter.Open), letters.Requeued.is(false)
	return append(undead(),
		dead(outbox.Dead, open, idle, letters.Failed.is(false)),
		dead(outbox.Failed, open, idle, letters.Failed.is(true)),
		dead(outbox.Discarded, letters.Origin.is(deadletter.FromRelay), letters.State.is(deadletter.Discarded)),
	)
}

func (r *Row) state() outbox.State {
	m := &r.Message
	return outbox.State{
		ID: m.ID, Topic: m.Address(), Destination: r.Destination, Type: m.Type, Source: m.Source, Tenant: m.Tenant, Key: m.Key,
		EnqueuedAt: r.EnqueuedAt,
	}
}

func (r *Row) scheduledState() outbox.State {
	st, due := r.state(), r.Message.DeliverAt
	st.DueAt = &due
	return st
}

func (w *Waiting) state() outbox.State {
	st := w.Row.state()
	st.Attempts, st.Error = w.Attempts, w.Error
	if !w.DueAt.IsZero() {
		st.DueAt = &w.DueAt
	}
	return st
}

func (a *Archived) state() outbox.State {
	st := a.Row.state()
	st.Attempts, st.PublishedAt = a.Attempts, &a.PublishedAt
	return st
}

func (l *Letter) state() outbox.State {
	st := l.Row.state()
	st.Attempts, st.Error = l.Attempts, l.Error
	return st
}

// states returns the messages of the places that wanted is true for.
func (e *Engine[S]) states(ctx context.Context, wanted func(outbox.Status) bool, f listFilter) ([]outbox.State, error) {
	states := []outbox.State{}
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

// MessageStates implements [outbox.Inspector]. Round trips: 8.
func (e *Engine[S]) MessageStates(ctx context.Context, id string) ([]outbox.State, error) {
	if id == "" { // which would be no filter
		return []outbox.State{}, nil
	}
	states, err := e.states(ctx, func(outbox.Status) bool { return true }, listFilter{Filter: outbox.Filter{MessageID: id}})
	slices.SortFunc(states, func(a, b outbox.State) int {
		return cmp.Or(a.EnqueuedAt.Compare(b.EnqueuedAt), cmp.Compare(a.Destination, b.Destination))
	})
	return states, err
}

// OutboxMessages implements [outbox.Inspector]. Round trips: 4 at most.
func (e *Engine[S]) OutboxMessages(ctx context.Context, f outbox.Filter) ([]outbox.State, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	wanted := func(st outbox.Status) bool { return st == f.Status || f.Status == "" && unpublished(st) }
	limit := cmp.Or(f.Limit, outbox.DefaultLimit)
	list, err := e.states(ctx, wanted, listFilter{f, f.Status == outbox.Published, limit})
	slices.SortStableFunc(list, func(a, b outbox.State) int {
		if f.Status == outbox.Published {
			return b.PublishedAt.Compare(*a.PublishedAt)
		}
		return cmp.Or(a.EnqueuedAt.Compare(b.EnqueuedAt), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Destination, b.Destination))
	})
	return list[:min(len(list), limit)], err
}

// OutboxStats implements [outbox.Inspector]. Round trips: 8.
func (e *Engine[S]) OutboxStats(ctx context.Context) ([]outbox.Stats, error) {
	return e.count(ctx, func(outbox.Status) bool { return true })
}

// OutboxBacklog implements [outbox.Inspector]. Round trips: 2.
func (e *Engine[S]) OutboxBacklog(ctx context.Context) ([]outbox.Stats, error) {
	return e.count(ctx, func(st outbox.Status) bool { return st == outbox.Pending || st == outbox.Waiting })
}

func (e *Engine[S]) count(ctx context.Context, counts func(outbox.Status) bool) ([]outbox.Stats, error) {
	var stats []outbox.Stats
	err := e.run(ctx, func(ctx context.Context, t *Tx) error {
		stats = []outbox.Stats{}
		for _, p := range counted() {
			if !counts(p.status) {
				continue
			}
			sums, err := p.sums(ctx, t)
			if err != nil {
				return err
			}
			for _, s := range sums {
				stats = append(stats, outbox.Stats{Topic: s.Topic, Status: p.status, Consumer: s.Consumer, Count: s.Count, Oldest: t.Now.Sub(s.Oldest)})
			}
		}
		return nil
	})
	return merged(stats), err
}

// merged sorts stats by topic, status and consumer, and adds up those of one status in two places.
func merged(stats []outbox.Stats) []outbox.Stats {
	slices.SortFunc(stats, func(a, b outbox.Stats) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Consumer, b.Consumer))
	})
	list := []outbox.Stats{}
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
