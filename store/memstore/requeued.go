package memstore

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
)

// TakeRequeued implements [inbox.Inbox].
func (s *Store) TakeRequeued(ctx context.Context, consumer string, lease time.Duration) (r inbox.Requeued, found bool, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		due := sorted(s.data.letters, func(l letter) bool {
			return l.Consumer == consumer && l.Requeued && !l.requeuedAt.After(s.now())
		}, func(l letter) int64 { return l.Number })
		if len(due) == 0 {
			return nil
		}
		l := due[0]
		l.requeuedAt = s.now().Add(lease)
		put(tx, s.data.letters, l.Number, l)
		r, found = inbox.Requeued{Number: l.Number, Key: l.key, Message: l.row.message.Clone()}, true
		return nil
	})
	return r, found && err == nil, err
}

// AwaitRequeued returns when a letter of a consumer may be taken by [Store.TakeRequeued], or when
// ctx is done. Without one it looks again after each commit.
func (s *Store) AwaitRequeued(ctx context.Context, consumer string) {
	commits, _ := s.wake.Join("requeued " + consumer)
	for {
		next := time.NewTimer(s.untilRequeued(ctx, consumer))
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case <-next.C:
			return
		case <-commits:
			next.Stop()
		}
	}
}

// untilRequeued returns how long it is until a letter of a consumer may be taken: long, if there is
// none.
func (s *Store) untilRequeued(ctx context.Context, consumer string) time.Duration {
	wait := time.Duration(math.MaxInt64)
	_ = s.inTx(ctx, func(*Tx) error { // fails if ctx is done only
		for _, l := range s.data.letters {
			if l.Consumer == consumer && l.Requeued {
				wait = min(wait, l.requeuedAt.Sub(s.now()))
			}
		}
		return nil
	})
	return max(0, wait)
}

// RunRequeued implements [inbox.Inbox].
func (s *Store) RunRequeued(ctx context.Context, r inbox.Requeued, node string, fn func(ctx context.Context, tx *Tx) error) (found bool, err error) {
	began := s.now()
	err = s.inTx(ctx, func(tx *Tx) error {
		l := s.data.letters[r.Number]
		if found = l.Requeued; !found {
			return nil
		}
		drop(tx, s.data.attempts, l.key)
		rec, seen := s.data.inbox[l.key]
		if seen && !rec.dead {
			s.hadEffect(tx, l)
			return nil
		}
		drop(tx, s.data.letters, l.Number)
		if !seen {
			rec.Record = inbox.RecordOf(l.Consumer, &l.row.message)
			rec.Key = l.key
		}
		rec.dead, rec.processedAt = false, s.now()
		put(tx, s.data.inbox, l.key, rec)
		return fn(ctx, tx)
	})
	switch {
	case err == nil:
		s.WakeRelay()
		return found, nil
	case !found:
		return false, err
	}
	return true, errors.Join(err, s.failRequeued(ctx, r.Number, node, s.now().Sub(began), err))
}

// hadEffect resolves a letter whose message was processed in another way.
func (s *Store) hadEffect(tx *Tx, l letter) {
	l.Requeued, l.requeuedAt = false, time.Time{}
	s.settleAs(tx, l, deadletter.Resolved, deadletter.HadEffect)
	s.audit(tx, deadletter.ActEffect, deadletter.Act{By: l.Consumer, Why: deadletter.HadEffect},
		deadletter.Entry{Letter: l.Number, MessageID: l.row.message.ID})
}

const requeueWait = 5 * time.Second // before a requeued letter that met an outage is tried again

func (s *Store) failRequeued(ctx context.Context, number int64, node string, took time.Duration, cause error) error {
	return s.inTx(context.WithoutCancel(ctx), func(tx *Tx) error {
		l, ok := s.data.letters[number]
		if !ok {
			return nil
		}
		l.Error, l.LastFailed, l.Reason = waybill.ErrorText(cause), s.now(), waybill.ReasonExhausted
		l.Fingerprint = deadletter.Fingerprint(deadletter.FromConsumer, l.Consumer, l.row.message.Type, l.Error)
		switch waybill.KindOf(cause) {
		case waybill.Permanent:
			l.Reason = waybill.ReasonOf(cause)
			fallthrough
		case waybill.Transient:
			l.Attempts++
			l.History = s.tried(l.History, node, took, l.Error)
			l.requeuedAt, l.Requeued = time.Time{}, false
			drop(tx, s.data.attempts, l.key)
		default:
			l.requeuedAt = s.now().Add(requeueWait)
			s.saveStarts(tx, l.key, 0)
		}
		put(tx, s.data.letters, number, l)
		return nil
	})
}
