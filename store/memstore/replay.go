package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
)

// replay is a bulk replay: letters with a number above passed, and up to upto, are still to
// be looked at.
type replay struct {
	deadletter.Replay
	passed, upto int64
}

var _ deadletter.ReplayStore = (*Store)(nil)

// replayable returns the letters that a replay with a filter would put back, by number.
func (s *Store) replayable(f deadletter.Filter) []letter {
	return sorted(s.data.letters, func(l letter) bool { return !l.Requeued && l.matches(f) }, func(l letter) int64 { return l.Number })
}

// PreviewReplay implements [deadletter.ReplayStore].
func (s *Store) PreviewReplay(ctx context.Context, f deadletter.Filter, inboxRetention time.Duration) (deadletter.Preview, error) {
	var p deadletter.Preview
	if err := (deadletter.Plan{Filter: f}).Check(); err != nil {
		return p, err
	}
	err := s.inTx(ctx, func(*Tx) error {
		keys := make(map[[2]string]bool)
		for _, l := range s.replayable(f) {
			p.Letters++
			if m := &l.row.message; m.Key != "" {
				keys[[2]string{m.Address(), m.Key}] = true
			}
			if inboxRetention > 0 && s.now().Sub(l.LastFailed) > inboxRetention {
				p.Unprotected++
			}
			if p.Oldest.IsZero() || l.FirstFailed.Before(p.Oldest) {
				p.Oldest = l.FirstFailed
			}
		}
		p.Keys = len(keys)
		return nil
	})
	return p, err
}

// StartReplay implements [deadletter.ReplayStore].
func (s *Store) StartReplay(ctx context.Context, p deadletter.Plan, act deadletter.Act) (int64, error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	if err := act.Check(); err != nil {
		return 0, err
	}
	var number int64
	err := s.inTx(ctx, func(tx *Tx) error {
		number = int64(len(s.data.replays)) + 1
		matching := s.replayable(p.Filter)
		r := replay{Replay: deadletter.Replay{
			Number: number, Plan: p.Complete(), Act: act, State: deadletter.Running, Letters: len(matching), StartedAt: s.now(),
		}}
		for i := range matching {
			r.upto = max(r.upto, matching[i].Number)
		}
		put(tx, s.data.replays, number, r)
		s.audit(tx, deadletter.ActReplay, act, deadletter.Entry{Replay: number})
		return nil
	})
	return number, err
}

// Replay implements [deadletter.ReplayStore].
func (s *Store) Replay(ctx context.Context, number int64) (found deadletter.Replay, err error) {
	err = s.inTx(ctx, func(*Tx) error {
		r, err := s.replay(number)
		found = s.shownReplay(r)
		return err
	})
	return found, err
}

func (s *Store) replay(number int64) (replay, error) {
	r, ok := s.data.replays[number]
	if !ok {
		return r, fmt.Errorf("replay %d: %w", number, waybill.ErrNotFound)
	}
	return r, nil
}

// shownReplay returns a replay as callers get it.
func (s *Store) shownReplay(r replay) deadletter.Replay {
	r.Failed = 0
	for _, l := range s.data.letters {
		if r.Number != 0 && l.Replay == r.Number && !l.Requeued {
			r.Failed++
		}
	}
	return r.Replay
}

// Replays implements [deadletter.ReplayStore].
func (s *Store) Replays(ctx context.Context, limit int) ([]deadletter.Replay, error) {
	list := []deadletter.Replay{}
	err := s.inTx(ctx, func(*Tx) error {
		for _, running := range []bool{true, false} {
			for _, r := range sorted(s.data.replays, func(r replay) bool { return (r.State == deadletter.Running) == running },
				func(r replay) int64 { return -r.Number }) {
				if len(list) < limit {
					list = append(list, s.shownReplay(r))
				}
			}
		}
		return nil
	})
	return list, err
}

// AdvanceReplay implements [deadletter.ReplayStore].
func (s *Store) AdvanceReplay(ctx context.Context, number int64, n int) (shown deadletter.Replay, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		r, err := s.replay(number)
		if err != nil {
			return err
		}
		if r.State == deadletter.Running {
			s.advance(tx, &r, n)
			put(tx, s.data.replays, number, r)
		}
		shown = s.shownReplay(r)
		return nil
	})
	if err != nil {
		return deadletter.Replay{}, err
	}
	s.WakeRelay()
	return shown, nil
}

func (s *Store) advance(tx *Tx, r *replay, n int) {
	if r.Problem = r.Plan.Problem(r.Requeued, s.shownReplay(*r).Failed); r.Problem != "" {
		s.endReplay(r, deadletter.Stopped)
		return
	}
	for _, l := range s.replayable(r.Plan.Filter) {
		if l.Number <= r.passed || l.Number > r.upto {
			continue
		}
		if n--; n < 0 {
			return
		}
		r.passed = l.Number
		if done, err := s.requeue(tx, l.Number, r.Number); !done || err != nil { // what can't be put back is passed
			r.Skipped++
			continue
		}
		r.Requeued++
		s.audit(tx, deadletter.ActRequeue, r.Act, deadletter.Entry{Letter: l.Number, MessageID: l.row.message.ID, Replay: r.Number})
	}
	r.Skipped = max(r.Skipped, r.Letters-r.Requeued) // settled or gone since it began
	s.endReplay(r, deadletter.Done)
}

func (s *Store) endReplay(r *replay, state deadletter.ReplayState) {
	now := s.now()
	r.State, r.EndedAt = state, &now
}

// CancelReplay implements [deadletter.ReplayStore].
func (s *Store) CancelReplay(ctx context.Context, number int64, act deadletter.Act) (cancelled bool, err error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	err = s.inTx(ctx, func(tx *Tx) error {
		r, err := s.replay(number)
		if err != nil || r.State != deadletter.Running {
			return err
		}
		s.endReplay(&r, deadletter.Cancelled)
		put(tx, s.data.replays, number, r)
		s.audit(tx, deadletter.ActCancel, act, deadletter.Entry{Replay: number})
		cancelled = true
		return nil
	})
	return cancelled, err
}
