package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/outbox"
)

// MessageStates implements [outbox.Inspector].
func (s *Store) MessageStates(ctx context.Context, id string) ([]outbox.State, error) {
	states := []outbox.State{}
	err := s.inTx(ctx, func(*Tx) error {
		for _, st := range s.listed() {
			if st.ID == id {
				states = append(states, st.State)
			}
		}
		return nil
	})
	slices.SortFunc(states, func(a, b outbox.State) int {
		return cmp.Or(a.EnqueuedAt.Compare(b.EnqueuedAt), cmp.Compare(a.Destination, b.Destination))
	})
	return states, err
}

// OutboxMessages implements [outbox.Inspector].
func (s *Store) OutboxMessages(ctx context.Context, f outbox.Filter) ([]outbox.State, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	list := []outbox.State{}
	err := s.inTx(ctx, func(*Tx) error {
		for _, l := range s.listed() {
			if s.matches(l, f) {
				list = append(list, l.State)
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b outbox.State) int {
		if f.Status == outbox.Published {
			return b.PublishedAt.Compare(*a.PublishedAt)
		}
		return cmp.Or(a.EnqueuedAt.Compare(b.EnqueuedAt), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Destination, b.Destination))
	})
	return list[:min(len(list), cmp.Or(f.Limit, outbox.DefaultLimit))], err
}

func (s *Store) matches(l listedState, f outbox.Filter) bool {
	equal := func(want, got string) bool { return want == "" || want == got }
	onItsWay := l.Status == outbox.Pending || l.Status == outbox.Waiting || l.Status == outbox.Scheduled
	return (l.Status == f.Status || f.Status == "" && onItsWay) && equal(f.Topic, l.Topic) && equal(f.Tenant, l.Tenant) &&
		equal(f.Key, l.Key) && equal(f.CorrelationID, l.correlation) && equal(f.MessageID, l.ID) && hasText(f.Text, l.ID, l.Key, l.correlation) &&
		(f.OlderThan == 0 || s.now().Sub(l.EnqueuedAt) >= f.OlderThan)
}

// OutboxStats implements [outbox.Inspector].
func (s *Store) OutboxStats(ctx context.Context) ([]outbox.Stats, error) {
	return s.count(ctx, func(outbox.Status) bool { return true })
}

// OutboxBacklog implements [outbox.Inspector].
func (s *Store) OutboxBacklog(ctx context.Context) ([]outbox.Stats, error) {
	return s.count(ctx, func(st outbox.Status) bool { return st == outbox.Pending || st == outbox.Waiting })
}

func (s *Store) count(ctx context.Context, counts func(outbox.Status) bool) ([]outbox.Stats, error) {
	type group struct {
		topic    string
		status   outbox.Status
		consumer string
	}
	groups := make(map[group]outbox.Stats)
	err := s.inTx(ctx, func(*Tx) error {
		for _, st := range s.counted() {
			if !counts(st.Status) {
				continue
			}
			key, age := group{st.Topic, st.Status, st.consumer}, s.now().Sub(st.since)
			g, others := groups[key]
			if !others {
				g = outbox.Stats{Topic: st.Topic, Status: st.Status, Consumer: st.consumer, Oldest: age}
			}
			g.Count++
			g.Oldest = max(g.Oldest, age)
			groups[key] = g
		}
		return nil
	})
	stats := sorted(groups, func(outbox.Stats) bool { return true }, func(g outbox.Stats) string { return g.Topic + "\x00" + string(g.Status) + "\x00" + g.Consumer })
	if stats == nil {
		stats = []outbox.Stats{}
	}
	return stats, err
}

// listedState is a row of the view "messages" of the other stores.
type listedState struct {
	outbox.State
	correlation string
	consumer    string    // whose letter it is
	since       time.Time // its age counts from then
}

// counted is what statistics count: of letters, those of which something is to be decided, and
// those of the relay that were discarded.
func (s *Store) counted() []listedState {
	list := s.undead()
	for _, l := range s.data.letters {
		discarded := l.State == deadletter.Discarded && l.Origin == deadletter.FromRelay
		if l.open() || discarded {
			st := l.state()
			st.consumer = l.Consumer
			list = append(list, st)
		}
	}
	return list
}

// listed is that view.
func (s *Store) listed() []listedState {
	list := s.undead()
	for _, l := range s.data.letters {
		if l.Origin == deadletter.FromRelay {
			list = append(list, l.state())
		}
	}
	return list
}

// undead is everything that is no dead letter.
func (s *Store) undead() []listedState {
	var list []listedState
	for _, r := range s.data.outbox {
		st := r.state(outbox.Pending)
		if r.message.DeliverAt.After(s.now()) {
			due := r.message.DeliverAt
			st.Status, st.DueAt = outbox.Scheduled, &due
		}
		list = append(list, st)
	}
	for _, w := range s.data.waiting {
		list = append(list, w.state(outbox.Waiting))
	}
	for _, r := range s.data.scheduled {
		st := r.state(outbox.Scheduled)
		due := r.message.DeliverAt
		st.DueAt = &due
		list = append(list, st)
	}
	for _, a := range s.data.archive {
		st := a.state(outbox.Published)
		at := a.publishedAt
		st.PublishedAt, st.DueAt, st.Error = &at, nil, ""
		list = append(list, st)
	}
	return list
}

func (r *row) state(status outbox.Status) listedState {
	m, since := &r.message, r.enqueuedAt
	if unpublished := status == outbox.Pending || status == outbox.Waiting || status == outbox.Scheduled; unpublished && m.DeliverAt.After(since) {
		since = m.DeliverAt
	}
	return listedState{correlation: m.CorrelationID, since: since, State: outbox.State{
		ID: m.ID, Status: status, Topic: m.Address(), Type: m.Type, Source: m.Source, Tenant: m.Tenant, Key: m.Key,
		EnqueuedAt: r.enqueuedAt,
	}}
}

func (w *waitingRow) state(status outbox.Status) listedState {
	st := w.row.state(status)
	st.Destination, st.Attempts, st.Error = w.destination, w.attempts, w.errText
	if !w.due.IsZero() {
		due := w.due
		st.DueAt = &due
	}
	return st
}

func (l *letter) state() listedState {
	st := l.row.state(outbox.Dead)
	switch {
	case l.State == deadletter.Discarded:
		st.Status = outbox.Discarded
	case l.Failed:
		st.Status = outbox.Failed
	}
	st.Destination, st.Attempts, st.Error = l.Destination, l.Attempts, l.Error
	return st
}
