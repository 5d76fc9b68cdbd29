package rows

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inspect"
)

// NewRecord returns the record of a message that is processed.
func NewRecord(r inbox.Record, now time.Time) *Record {
	r.Retried, r.At = false, nil // they are not stored
	return &Record{Record: r, ProcessedAt: now}
}

// Outcome returns what became of a message that has a record.
func (r *Record) Outcome(of inbox.Record) inbox.Outcome {
	switch {
	case r.Dead:
		return inbox.Dead
	case r.PayloadHash != "" && r.PayloadHash != of.PayloadHash:
		return inbox.Conflict
	}
	return inbox.Duplicate
}

// Gate is the inbox insert: it adds the records that are not there, clears what is known of attempts, and
// returns the outcome for each message. fresh are the places of those to be processed. Round trips: 2, and 1 if
// one was tried before.
func (t *Tx) Gate(ctx context.Context, recs []inbox.Record) (outcomes []inbox.Outcome, fresh []int, err error) {
	keys := make([]inbox.Key, len(recs))
	var retried []inbox.Key
	for i, rec := range recs {
		keys[i] = rec.Key
		if rec.Retried {
			retried = append(retried, rec.Key)
		}
	}
	found, err := t.Inbox.Get(ctx, keys...)
	if err != nil {
		return nil, nil, err
	}
	seen := make(map[inbox.Key]*Record, len(found))
	for _, r := range found {
		seen[r.Key] = r
	}
	var missing []*Record
	outcomes = make([]inbox.Outcome, len(recs))
	for i, rec := range recs {
		outcomes[i] = inbox.Processed
		if r, ok := seen[rec.Key]; ok {
			outcomes[i] = r.Outcome(rec)
			continue
		}
		fresh = append(fresh, i)
		missing = append(missing, NewRecord(rec, t.Now))
	}
	if err := t.Inbox.Add(ctx, missing...); err != nil {
		return nil, nil, err
	}
	return outcomes, fresh, t.Attempts.Delete(ctx, retried...)
}

// addRecord adds an inbox record and clears what is known of attempts; it returns false if the record exists.
// Round trips: 2, 3 if the message was tried before.
func (t *Tx) addRecord(ctx context.Context, rec inbox.Record) (bool, error) {
	there, err := get(ctx, t.Inbox, rec.Key)
	if err != nil || there != nil {
		return false, err
	}
	if rec.Retried {
		if err := t.Attempts.Delete(ctx, rec.Key); err != nil {
			return false, err
		}
	}
	err = t.Inbox.Add(ctx, NewRecord(rec, t.Now))
	return err == nil, err
}

func (t *Tx) removeRecords(ctx context.Context, c []Condition[*Record], limit int) (int, error) {
	found, err := t.Inbox.Find(ctx, where(c...).first(limit).only(records.ProcessedAt.Name))
	keys := make([]inbox.Key, len(found))
	for i, r := range found {
		keys[i] = r.Key
	}
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	return len(keys), t.Inbox.Delete(ctx, keys...)
}

// FailedAttempts implements [contract.Inbox]. Round trips: 1.
func (e *Engine[S]) FailedAttempts(ctx context.Context, key inbox.Key) (known contract.Attempts, err error) {
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		known = contract.Attempts{}
		a, err := get(ctx, t.Attempts, key)
		if err == nil && a != nil {
			known = contract.Attempts{Count: a.Count, Wait: max(0, a.DueAt.Sub(t.Now)), Starts: a.Starts, Error: a.lastError()}
		}
		return err
	})
	return known, err
}

// SaveAttempt implements [contract.Inbox]. Round trips: 2.
func (e *Engine[S]) SaveAttempt(ctx context.Context, key inbox.Key, a contract.FailedAttempt) error {
	return e.run(ctx, func(ctx context.Context, t *Tx) error {
		past, err := t.attempt(ctx, key)
		if err != nil {
			return err
		}
		next := &Attempt{Key: key, Count: a.Count, DueAt: t.Now.Add(a.Wait), FirstAt: t.Now, History: past.History}
		if past.Count > 0 {
			next.FirstAt = past.FirstAt
		}
		if a.Count > past.Count {
			next.History = tried(past.History, deadletter.Attempt{At: t.Now, Node: a.Node, Took: a.Took, Error: a.Error})
		}
		return t.Attempts.Put(ctx, next)
	})
}

// attempt returns what is known of a message that was not processed, the zero value if nothing.
func (t *Tx) attempt(ctx context.Context, key inbox.Key) (Attempt, error) {
	a, err := get(ctx, t.Attempts, key)
	if err != nil || a == nil {
		return Attempt{}, err
	}
	return *a, nil
}

// SaveStarts stores how often an attempt at a message was started. Round trips: 2.
func (t *Tx) SaveStarts(ctx context.Context, key inbox.Key, starts int) error {
	a, err := get(ctx, t.Attempts, key)
	if err != nil || a == nil && starts == 0 {
		return err
	}
	if a == nil {
		a = &Attempt{Key: key, DueAt: t.Now, FirstAt: t.Now}
	}
	a.Starts = starts
	return t.Attempts.Put(ctx, a)
}

// Bury makes a message a dead letter of its consumer, and returns false if it has a record already. Round
// trips: 6.
func (t *Tx) Bury(ctx context.Context, l inbox.Letter) (bool, error) {
	key := l.Record.Key
	if key.Message != "" {
		seen, err := get(ctx, t.Inbox, key)
		if err != nil || seen != nil {
			return false, err
		}
		r := NewRecord(l.Record, t.Now)
		r.Dead = true
		if err := t.Inbox.Add(ctx, r); err != nil {
			return false, err
		}
	}
	past, err := t.attempt(ctx, key)
	if err != nil {
		return false, err
	}
	if err := t.addLetter(ctx, t.letterOf(l, past)); err != nil {
		return false, err
	}
	return true, t.Attempts.Delete(ctx, key)
}

// letterOf returns a consumer's dead letter, with what is known of earlier attempts.
func (t *Tx) letterOf(l inbox.Letter, past Attempt) *Letter {
	m := l.Message.Clone()
	m.Tenant = l.Record.Tenant
	return &Letter{
		Row: *rowOf(m, 0, t.Now), Key: l.Record.Key,
		Letter: deadletter.Letter{
			Origin: deadletter.FromConsumer, Consumer: l.Record.Consumer, Reason: l.Reason, Error: l.Error,
			Attempts: l.Attempts, Failed: l.Failed, State: deadletter.Open,
			Fingerprint: deadletter.Fingerprint(deadletter.FromConsumer, l.Record.Consumer, m.Type, l.Error),
			FirstFailed: orNow(past.FirstAt, t.Now), LastFailed: t.Now,
			History: tried(past.History, deadletter.Attempt{At: t.Now, Node: l.Node, Took: l.Took, Error: l.Error}),
		},
	}
}

// InboxStates implements [inspect.Inbox]. Round trips: 2.
func (e *Engine[S]) InboxStates(ctx context.Context, id, consumer string) ([]inspect.InboxState, error) {
	var states []inspect.InboxState
	err := e.run(ctx, func(ctx context.Context, t *Tx) error {
		states = []inspect.InboxState{}
		byID := append(records.Consumer.isIf(consumer), anyOf([]Condition[*Record]{records.MessageID.is(id)}, []Condition[*Record]{records.Message.is(id)}))
		found, err := t.Inbox.Find(ctx, where(byID...))
		if err != nil {
			return err
		}
		ended := make(map[inbox.Key]bool)
		for _, r := range found {
			ended[r.Key] = true
			states = append(states, r.state())
		}
		open, err := t.Attempts.Find(ctx, where(append(attempts.Consumer.isIf(consumer), attempts.Message.is(id))...))
		for _, a := range open {
			if !ended[a.Key] {
				states = append(states, a.state())
			}
		}
		return err
	})
	slices.SortFunc(states, func(a, b inspect.InboxState) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Alias, b.Alias), cmp.Compare(a.Message, b.Message))
	})
	return states, err
}

func stateOf(k inbox.Key) inspect.InboxState {
	return inspect.InboxState{Tenant: k.Tenant, Consumer: k.Consumer, Source: k.Source, Alias: k.Alias, Message: k.Message}
}

func (r *Record) state() inspect.InboxState {
	st := stateOf(r.Key)
	st.MessageID, st.Type = r.MessageID, r.Type
	if r.Dead {
		st.DeadAt = &r.ProcessedAt
	} else {
		st.ProcessedAt = &r.ProcessedAt
	}
	return st
}

func (a *Attempt) state() inspect.InboxState {
	st := stateOf(a.Key)
	st.Attempts, st.DueAt, st.Error = a.Count, &a.DueAt, a.lastError()
	return st
}
