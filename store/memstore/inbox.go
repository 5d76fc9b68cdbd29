package memstore

import (
	"context"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

// ProcessOnce implements [contract.Inbox].
func (s *Store) ProcessOnce(ctx context.Context, rec inbox.Record, fn func(ctx context.Context, tx *Tx) error) (outcome inbox.Outcome, err error) {
	err = s.inSteps(ctx, func(tx *Tx) (err error) {
		if outcome, err = s.enter(ctx, tx, rec); err != nil || outcome != inbox.Processed {
			return err
		}
		return fn(ctx, tx)
	})
	return outcome, err
}

// ProcessBatch implements [contract.Batcher].
func (s *Store) ProcessBatch(ctx context.Context, recs []inbox.Record, fn func(ctx context.Context, tx *Tx, fresh []int) error) (outcomes []inbox.Outcome, err error) {
	if err := contract.ValidateBatch(recs); err != nil || len(recs) == 0 {
		return nil, err
	}
	err = s.inSteps(ctx, func(tx *Tx) error {
		var fresh []int
		if outcomes, fresh, err = tx.gate(ctx, recs); err != nil || len(fresh) == 0 {
			return err
		}
		return fn(ctx, tx, fresh)
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// enter checks a message against the progress of its partition, if it has a position, and inserts
// its inbox record, unless it is recorded there once. A message in conflict with another one is not
// settled.
func (s *Store) enter(ctx context.Context, tx *Tx, rec inbox.Record) (outcome inbox.Outcome, err error) {
	passed, err := s.passed(rec.At)
	switch {
	case err != nil:
		return 0, err
	case !passed && (rec.At == nil || !rec.At.Once):
		outcomes, _, err := tx.gate(ctx, []inbox.Record{rec})
		if err != nil {
			return 0, err
		}
		outcome = outcomes[0]
	case rec.Retried:
		drop(tx, s.data.attempts, rec.Key)
	}
	if passed {
		return inbox.Duplicate, nil
	}
	if outcome != inbox.Conflict {
		s.moveBehind(tx, rec.At)
	}
	return outcome, nil
}

// gate is [rows.Tx.Gate], the inbox insert, with a step for each message.
func (tx *Tx) gate(ctx context.Context, recs []inbox.Record) ([]inbox.Outcome, []int, error) {
	for range recs {
		if err := tx.step("record the message in the inbox"); err != nil {
			return nil, nil, err
		}
	}
	return tx.rows().Gate(ctx, recs)
}

// BuryMessage implements [contract.Inbox].
func (s *Store) BuryMessage(ctx context.Context, l inbox.Letter) (buried bool, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		if passed, err := s.passed(l.Record.At); err != nil || passed {
			return err
		}
		s.moveBehind(tx, l.Record.At)
		buried, err = tx.rows().Bury(ctx, l)
		return err
	})
	return buried && err == nil, err
}

// ForgetRecord removes an inbox record, as its retention does.
func (s *Store) ForgetRecord(key inbox.Key) error {
	return s.inTx(context.Background(), func(tx *Tx) error {
		drop(tx, s.data.inbox, key)
		return nil
	})
}

var (
	errNoTx    = &waybill.InvalidError{Field: "tx", Reason: "is required"}
	errEndedTx = &waybill.InvalidError{Field: "tx", Reason: "has ended"}
)

// given refuses a transaction that is nil, or has ended: the store may be another one's.
func (tx *Tx) given() error {
	switch {
	case tx == nil:
		return errNoTx
	case tx.done:
		return errEndedTx
	}
	return nil
}
