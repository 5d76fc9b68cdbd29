package mongostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
)

// replayDoc is a bulk replay: letters with a number above Passed, and up to UpTo, are still to
// be looked at.
type replayDoc struct {
	ID                int64 `bson:"_id"` // the number
	deadletter.Replay `bson:",inline"`
	Passed            int64 `bson:"passed"`
	UpTo              int64 `bson:"up_to"`
}

// replayable matches the letters that a replay with a filter would put back.
func replayable(f deadletter.Filter) bson.M {
	m := filterOf(f)
	m["requeued"] = false
	return m
}

// PreviewReplay implements [deadletter.ReplayStore].
func (s *Store) PreviewReplay(ctx context.Context, f deadletter.Filter, inboxRetention time.Duration) (deadletter.Preview, error) {
	if err := (deadletter.Plan{Filter: f}).Check(); err != nil {
		return deadletter.Preview{}, err
	}
	var p deadletter.Preview
	err := s.inTx(ctx, func(ctx context.Context, t *tx) error {
		p = deadletter.Preview{}
		keys := make(map[[2]string]bool)
		docs, err := find[letterDoc](ctx, s.letters, replayable(f), sorted("_id").SetProjection(
			only("row.topic", "row.key", "first_failed_at", "last_failed_at")))
		for _, l := range docs {
			p.Letters++
			if l.Row.Key != "" {
				keys[[2]string{l.Row.Topic, l.Row.Key}] = true
			}
			if inboxRetention > 0 && t.now.Sub(l.LastFailed) > inboxRetention {
				p.Unprotected++
			}
			if p.Oldest.IsZero() || l.FirstFailed.Before(p.Oldest) {
				p.Oldest = l.FirstFailed
			}
		}
		p.Keys = len(keys)
		return err
	})
	return p, err
}

// StartReplay implements [deadletter.ReplayStore].
func (s *Store) StartReplay(ctx context.Context, p deadletter.Plan, act deadletter.Act) (number int64, err error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	if err := act.Check(); err != nil {
		return 0, err
	}
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		n, err := s.letters.CountDocuments(ctx, replayable(p.Filter))
		if err != nil {
			return err
		}
		last, _, err := findOne[letterDoc](ctx, s.letters, replayable(p.Filter), "-_id")
		if err != nil {
			return err
		}
		if number, _, err = s.draw(ctx, counterReplay, 1); err != nil {
			return err
		}
		r := replayDoc{ID: number, UpTo: last.ID, Replay: deadletter.Replay{
			Number: number, Plan: p.Complete(), Act: act, State: deadletter.Running, Letters: int(n), StartedAt: t.now,
		}}
		if err := save(ctx, s.replays, number, r); err != nil {
			return err
		}
		return t.note(ctx, deadletter.ActReplay, act, deadletter.Entry{Replay: number})
	})
	if err != nil {
		return 0, err
	}
	return number, nil
}

// Replay implements [deadletter.ReplayStore].
func (s *Store) Replay(ctx context.Context, number int64) (shown deadletter.Replay, err error) {
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		r, err := t.replay(ctx, number)
		if err != nil {
			return err
		}
		shown, err = t.shownReplay(ctx, r)
		return err
	})
	return shown, err
}

func (t *tx) replay(ctx context.Context, number int64) (replayDoc, error) {
	r, found, err := findOne[replayDoc](ctx, t.replays, bson.M{"_id": number})
	if err == nil && !found {
		err = fmt.Errorf("replay %d: %w", number, waybill.ErrNotFound)
	}
	return r, err
}

// shownReplay returns a replay as callers get it.
func (t *tx) shownReplay(ctx context.Context, r replayDoc) (deadletter.Replay, error) {
	failed, err := t.letters.CountDocuments(ctx, bson.M{"replay": r.ID, "requeued": false})
	r.Failed = int(failed)
	return r.Replay, err
}

// Replays implements [deadletter.ReplayStore].
func (s *Store) Replays(ctx context.Context, limit int) ([]deadletter.Replay, error) {
	var list []deadletter.Replay
	err := s.inTx(ctx, func(ctx context.Context, t *tx) error {
		list = []deadletter.Replay{}
		for _, state := range []bson.M{{"state": deadletter.Running}, {"state": bson.M{"$ne": deadletter.Running}}} {
			if limit <= len(list) {
				break
			}
			docs, err := find[replayDoc](ctx, s.replays, state, sorted("-_id").SetLimit(int64(limit-len(list))))
			if err != nil {
				return err
			}
			for _, d := range docs {
				r, err := t.shownReplay(ctx, d)
				if err != nil {
					return err
				}
				list = append(list, r)
			}
		}
		return nil
	})
	return list, err
}

// AdvanceReplay implements [deadletter.ReplayStore].
func (s *Store) AdvanceReplay(ctx context.Context, number int64, n int) (shown deadletter.Replay, err error) {
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		r, err := t.replay(ctx, number)
		if err != nil {
			return err
		}
		if r.State == deadletter.Running {
			if err := t.advance(ctx, &r, n); err != nil {
				return err
			}
			if err := save(ctx, s.replays, r.ID, r); err != nil {
				return err
			}
		}
		shown, err = t.shownReplay(ctx, r)
		return err
	})
	if err != nil {
		return deadletter.Replay{}, err
	}
	s.WakeRelay()
	return shown, nil
}

func (t *tx) advance(ctx context.Context, r *replayDoc, n int) error {
	shown, err := t.shownReplay(ctx, *r)
	if err != nil {
		return err
	}
	if r.Problem = r.Plan.Problem(r.Requeued, shown.Failed); r.Problem != "" {
		t.endReplay(r, deadletter.Stopped)
		return nil
	}
	filter := replayable(r.Plan.Filter)
	filter["_id"] = bson.M{"$gt": r.Passed, "$lte": r.UpTo}
	letters, err := find[letterDoc](ctx, t.letters, filter, sorted("_id").SetLimit(int64(n)+1))
	if err != nil {
		return err
	}
	for _, l := range letters[:min(n, len(letters))] {
		if err := t.replayOne(ctx, r, l); err != nil {
			return err
		}
	}
	if len(letters) <= n {
		r.Skipped = max(r.Skipped, r.Letters-r.Requeued) // settled or gone since it began
		t.endReplay(r, deadletter.Done)
	}
	return nil
}

// replayOne puts a letter back, or passes it if it can't be.
func (t *tx) replayOne(ctx context.Context, r *replayDoc, l letterDoc) error {
	r.Passed = l.ID
	id, requeued, err := t.requeue(ctx, l.ID, r.ID)
	switch {
	case err != nil && !waybill.IsPermanent(err) && !errors.Is(err, deadletter.ErrBehind):
		return err
	case !requeued:
		r.Skipped++
		return nil
	}
	r.Requeued++
	return t.note(ctx, deadletter.ActRequeue, r.Act, deadletter.Entry{Letter: l.ID, MessageID: id, Replay: r.ID})
}

func (t *tx) endReplay(r *replayDoc, state deadletter.ReplayState) {
	r.State, r.EndedAt = state, &t.now
}

// CancelReplay implements [deadletter.ReplayStore].
func (s *Store) CancelReplay(ctx context.Context, number int64, act deadletter.Act) (cancelled bool, err error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		cancelled = false
		r, err := t.replay(ctx, number)
		if err != nil || r.State != deadletter.Running {
			return err
		}
		cancelled = true
		t.endReplay(&r, deadletter.Cancelled)
		if err := save(ctx, s.replays, r.ID, r); err != nil {
			return err
		}
		return t.note(ctx, deadletter.ActCancel, act, deadletter.Entry{Replay: number})
	})
	return cancelled && err == nil, err
}
