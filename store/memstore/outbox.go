package memstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/lanehash"
	"github.com/waybill-go/waybill/outbox"
)

// EnqueueMessages implements [outbox.Store].
func (s *Store) EnqueueMessages(_ context.Context, tx *Tx, b outbox.Batch) ([]bool, error) {
	if err := tx.step(fmt.Sprintf("enqueue, messages: %d", len(b.Messages))); err != nil {
		return nil, err
	}
	isNew := make([]bool, len(b.Messages))
	for i := range b.Messages {
		isNew[i] = s.enqueue(tx, &b.Messages[i], b.Remember)
	}
	return isNew, nil
}

func (s *Store) enqueue(tx *Tx, m *waybill.Message, remember bool) bool {
	id := outbox.IdentityOf(m)
	if remember {
		if _, taken := s.data.ids[id]; taken {
			return false
		}
		put(tx, s.data.ids, id, s.now())
	}
	if s.data.pending(id) || s.data.waits(id) {
		return false
	}
	s.add(tx, m.Clone(), nil)
	return true
}

// add puts a message into the outbox.
func (s *Store) add(tx *Tx, m waybill.Message, malformed error) {
	r := s.newRow(m, malformed)
	put(tx, s.data.outbox, r.position, r)
}

// newRow returns a message as the databases keep it, with a position of its own.
func (s *Store) newRow(m waybill.Message, malformed error) row {
	now := s.now().UTC()
	if m.Time.IsZero() {
		m.Time = now
	}
	for _, t := range []*time.Time{&m.Time, &m.DeliverAt, &m.ExpiresAt} {
		*t = t.Round(time.Microsecond).UTC() // as the databases keep it
	}
	m.Payload = slices.Clone(m.Payload)
	s.data.position++
	return row{message: m, position: s.data.position, lane: lanehash.Of(&m), enqueuedAt: now, malformed: malformed}
}

// Transact implements [outbox.Store].
func (s *Store) Transact(ctx context.Context, fn func(ctx context.Context, tx *Tx) (outbox.Batch, error)) (isNew []bool, err error) {
	err = s.inSteps(ctx, func(tx *Tx) error {
		b, err := fn(ctx, tx)
		if err != nil {
			return err
		}
		isNew, err = s.EnqueueMessages(ctx, tx, b)
		return err
	})
	if err != nil {
		return nil, err
	}
	return isNew, nil
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
