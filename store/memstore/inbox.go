package memstore

import (
	"context"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
)

// ProcessOnce implements [inbox.Inbox].
func (s *Store) ProcessOnce(ctx context.Context, rec inbox.Record, fn func(ctx context.Context, tx *Tx) error) (outcome inbox.Outcome, err error) {
	err = s.inSteps(ctx, func(tx *Tx) (err error) {
		if outcome, err = s.enter(tx, rec); err != nil || outcome != inbox.Processed {
			return err
		}
		return fn(ctx, tx)
	})
	return outcome, err
}

// ProcessBatch implements [inbox.Batcher].
func (s *Store) ProcessBatch(ctx context.Context, recs []inbox.Record, fn func(ctx context.Context, tx *Tx, fresh []int) error) ([]inbox.Outcome, error) {
	if err := inbox.ValidateBatch(recs); err != nil || len(recs) == 0 {
		return nil, err
	}
	outcomes := make([]inbox.Outcome, len(recs))
	var fresh []int
	err := s.inSteps(ctx, func(tx *Tx) (err error) {
		for i, rec := range recs {
			if outcomes[i], err = s.gate(tx, rec); err != nil {
				return err
			}
			if outcomes[i] == inbox.Processed {
				fresh = append(fresh, i)
			}
		}
		if len(fresh) == 0 {
			return nil
		}
		return fn(ctx, tx, fresh)
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// enter lets a message pass the progress of its partition, if it has a position, and the gate,
// unless it stands there once. One in conflict with another is not done with.
func (s *Store) enter(tx *Tx, rec inbox.Record) (outcome inbox.Outcome, err error) {
	passed, err := s.passed(rec.At)
	switch {
	case err != nil:
		return 0, err
	case !passed && (rec.At == nil || !rec.At.Once):
		if outcome, err = s.gate(tx, rec); err != nil {
			return outcome, err
		}
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

// gate adds a record, or returns what there is instead of it.
func (s *Store) gate(tx *Tx, rec inbox.Record) (inbox.Outcome, error) {
	if err := tx.step("record the message in the inbox"); err != nil {
		return inbox.Processed, err
	}
	if rec.Retried {
		drop(tx, s.data.attempts, rec.Key)
	}
	if seen, ok := s.data.inbox[rec.Key]; ok {
		return seen.outcome(rec), nil
	}
	put(tx, s.data.inbox, rec.Key, record{Record: rec, processedAt: s.now()})
	return inbox.Processed, nil
}

func (r record) outcome(rec inbox.Record) inbox.Outcome {
	switch {
	case r.dead:
		return inbox.Dead
	case r.PayloadHash != "" && r.PayloadHash != rec.PayloadHash:
		return inbox.Conflict
	}
	return inbox.Duplicate
}

// FailedAttempts implements [inbox.Inbox].
func (s *Store) FailedAttempts(ctx context.Context, key inbox.Key) (a inbox.Attempts, err error) {
	err = s.inTx(ctx, func(*Tx) error {
		if past, ok := s.data.attempts[key]; ok {
			a = inbox.Attempts{Count: past.count, Wait: max(0, past.due.Sub(s.now())), Starts: past.starts, Error: past.error()}
		}
		return nil
	})
	return a, err
}

// SaveAttempt implements [inbox.Inbox].
func (s *Store) SaveAttempt(ctx context.Context, key inbox.Key, a inbox.FailedAttempt) error {
	return s.inTx(ctx, func(tx *Tx) error {
		past := s.data.attempts[key]
		next := attempt{count: a.Count, due: s.now().Add(a.Wait), first: s.now(), history: past.history}
		if past.count > 0 {
			next.first = past.first
		}
		if a.Count > past.count {
			next.history = s.tried(past.history, a.Node, a.Took, a.Error)
		}
		put(tx, s.data.attempts, key, next)
		return nil
	})
}

// BuryMessage implements [inbox.Inbox].
func (s *Store) BuryMessage(ctx context.Context, l inbox.Letter) (buried bool, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		if passed, err := s.passed(l.Record.At); err != nil || passed {
			return err
		}
		s.moveBehind(tx, l.Record.At)
		key := l.Record.Key
		if key.Message != "" {
			if _, ok := s.data.inbox[key]; ok {
				return nil
			}
			put(tx, s.data.inbox, key, record{Record: l.Record, dead: true, processedAt: s.now()})
		}
		buried = true
		s.data.number++
		m := l.Message.Clone()
		m.Tenant = key.Tenant
		put(tx, s.data.letters, s.data.number, letter{
			row: row{message: m, enqueuedAt: s.now()}, key: key,
			Letter: deadletter.Letter{
				Number: s.data.number, Origin: deadletter.FromConsumer, Consumer: key.Consumer, Reason: l.Reason, Error: l.Error,
				Attempts: l.Attempts, Failed: l.Failed, Message: m, State: deadletter.Open,
				Fingerprint: deadletter.Fingerprint(deadletter.FromConsumer, key.Consumer, m.Type, l.Error),
				FirstFailed: orNow(s.data.attempts[key].first, s.now()), LastFailed: s.now(),
				History: s.tried(s.data.attempts[key].history, l.Node, l.Took, l.Error),
			},
		})
		drop(tx, s.data.attempts, key)
		return nil
	})
	return buried, err
}

// ForgetRecord removes an inbox record, as its retention does.
func (s *Store) ForgetRecord(key inbox.Key) error {
	return s.inTx(context.Background(), func(tx *Tx) error {
		drop(tx, s.data.inbox, key)
		return nil
	})
}
