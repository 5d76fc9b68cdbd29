package memstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
)

// EnqueueMessages implements [outbox.Store].
func (*Store) EnqueueMessages(ctx context.Context, tx *Tx, b outbox.Batch) ([]bool, error) {
	if err := tx.step(fmt.Sprintf("enqueue, messages: %d", len(b.Messages))); err != nil {
		return nil, err
	}
	return tx.rows().Enqueue(ctx, b)
}

// CancelEnqueued implements [outbox.Store].
func (*Store) CancelEnqueued(ctx context.Context, tx *Tx, id outbox.Identity) (outbox.Cancellation, error) {
	if err := tx.step("cancel a message"); err != nil {
		return outbox.Cancellation{}, err
	}
	return tx.rows().Cancel(ctx, id)
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
// library's checks: headers should be the text of a JSON object. A message that does not decode is
// claimed as malformed.
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
		r := tx.newRow(m)
		r.Malformed = malformed
		put(tx, s.data.outbox, r.Position, r)
		return nil
	})
	s.WakeRelay()
	return err
}
