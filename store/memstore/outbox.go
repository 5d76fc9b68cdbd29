package memstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/outbox"
)

// EnqueueMessages implements [outbox.Store].
func (s *Store) EnqueueMessages(_ context.Context, tx *Tx, msgs []waybill.Message, unique bool) ([]bool, error) {
	isNew := make([]bool, len(msgs))
	for i := range msgs {
		isNew[i] = s.enqueue(tx, &msgs[i], unique)
	}
	return isNew, nil
}

func (s *Store) enqueue(tx *Tx, m *waybill.Message, unique bool) bool {
	if unique {
		if _, taken := s.data.ids[m.ID]; taken {
			return false
		}
		put(tx, s.data.ids, m.ID, s.now())
	}
	if s.data.idPending(m.ID) || s.data.idWaits(m.ID) {
		return false
	}
	s.add(tx, m.Clone(), nil)
	return true
}

// add puts a message into the outbox.
func (s *Store) add(tx *Tx, m waybill.Message, malformed error) {
	now := s.now().UTC()
	if m.Time.IsZero() {
		m.Time = now
	}
	for _, t := range []*time.Time{&m.Time, &m.DeliverAt, &m.ExpiresAt} {
		*t = t.Round(time.Microsecond).UTC() // as the databases keep it
	}
	m.Payload = slices.Clone(m.Payload)
	s.data.position++
	r := row{message: m, position: s.data.position, lane: laneOf(&m), enqueuedAt: now, malformed: malformed}
	put(tx, s.data.outbox, r.position, r)
}

// Transact implements [outbox.Store].
func (s *Store) Transact(ctx context.Context, fn func(ctx context.Context, tx *Tx) ([]waybill.Message, error), unique bool) (isNew []bool, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		msgs, err := fn(ctx, tx)
		if err != nil {
			return err
		}
		isNew, err = s.EnqueueMessages(ctx, tx, msgs, unique)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.WakeRelay()
	return isNew, nil
}

// MessageStates implements [outbox.Inspector].
func (s *Store) MessageStates(ctx context.Context, id string) ([]outbox.State, error) {
	states := []outbox.State{}
	err := s.inTx(ctx, func(*Tx) error {
		for _, st := range s.states() {
			if st.ID == id {
				states = append(states, st)
			}
		}
		return nil
	})
	slices.SortFunc(states, func(a, b outbox.State) int {
		return cmp.Or(a.EnqueuedAt.Compare(b.EnqueuedAt), cmp.Compare(a.Destination, b.Destination))
	})
	return states, err
}

// OutboxStats implements [outbox.Inspector].
func (s *Store) OutboxStats(ctx context.Context) ([]outbox.Stats, error) {
	return s.stats(ctx, func(outbox.Status) bool { return true })
}

// OutboxBacklog implements [outbox.Inspector].
func (s *Store) OutboxBacklog(ctx context.Context) ([]outbox.Stats, error) {
	return s.stats(ctx, func(status outbox.Status) bool {
		return status == outbox.Pending || status == outbox.Waiting || status == outbox.Scheduled
	})
}

func (s *Store) stats(ctx context.Context, counts func(outbox.Status) bool) ([]outbox.Stats, error) {
	type group struct {
		topic  string
		status outbox.Status
	}
	groups := make(map[group]outbox.Stats)
	err := s.inTx(ctx, func(*Tx) error {
		for _, st := range s.states() {
			if !counts(st.Status) {
				continue
			}
			g := groups[group{st.Topic, st.Status}]
			g.Topic, g.Status = st.Topic, st.Status
			g.Count++
			g.Oldest = max(g.Oldest, s.now().Sub(st.EnqueuedAt))
			groups[group{st.Topic, st.Status}] = g
		}
		return nil
	})
	stats := sorted(groups, func(outbox.Stats) bool { return true }, func(g outbox.Stats) string { return g.Topic + "\x00" + string(g.Status) })
	if stats == nil {
		stats = []outbox.Stats{}
	}
	return stats, err
}

// states is the view "messages" of the other stores.
func (s *Store) states() []outbox.State {
	var list []outbox.State
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
	for _, l := range s.data.letters {
		if l.Origin == "relay" {
			list = append(list, l.state())
		}
	}
	return list
}

func (r *row) state(status outbox.Status) outbox.State {
	m := &r.message
	return outbox.State{
		ID: m.ID, Status: status, Topic: m.Address(), Type: m.Type, Source: m.Source, Tenant: m.Tenant, Key: m.Key,
		EnqueuedAt: r.enqueuedAt,
	}
}

func (w *waitingRow) state(status outbox.Status) outbox.State {
	st := w.row.state(status)
	st.Destination, st.Attempts, st.Error = w.destination, w.attempts, w.errText
	if !w.due.IsZero() {
		due := w.due
		st.DueAt = &due
	}
	return st
}

func (l *letter) state() outbox.State {
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

// InsertRaw stores a message as the plain INSERT of a foreign program would, without the
// library's checks: headers are the text of a JSON object, or what somebody took for one.
// What does not decode is claimed as malformed.
func (s *Store) InsertRaw(topic, key, headers, payload string) error {
	m := waybill.Message{Topic: topic, Key: key, Payload: []byte(payload)}
	var malformed error
	if headers != "" && json.Unmarshal([]byte(headers), &m.Headers) != nil {
		m.Headers = nil
		malformed = errors.New("headers are not a JSON object of strings")
	}
	m.Complete()
	malformed = errors.Join(malformed, m.Validate())
	err := s.inTx(context.Background(), func(tx *Tx) error {
		s.add(tx, m, malformed)
		return nil
	})
	s.WakeRelay()
	return err
}
