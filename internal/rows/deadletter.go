package rows

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
)

// filtered holds for the dead letters of a filter, on whatever page they are.
func filtered(f deadletter.Filter) []Condition[*Letter] {
	c := []Condition[*Letter]{letters.State.is(cmp.Or(f.State, deadletter.Open))}
	c = append(c, letters.Origin.isIf(f.Origin)...)
	c = append(c, letters.Consumer.isIf(f.Consumer)...)
	c = append(c, letters.Topic.isIf(f.Topic)...)
	c = append(c, letters.Type.isIf(f.Type)...)
	c = append(c, letters.Tenant.isIf(f.Tenant)...)
	c = append(c, letters.MessageID.isIf(f.MessageID)...)
	c = append(c, letters.Key.isIf(f.Key)...)
	c = append(c, letters.Correlation.isIf(f.CorrelationID)...)
	c = append(c, letters.Fingerprint.isIf(f.Fingerprint)...)
	if !f.Since.IsZero() {
		c = append(c, letters.LastFailed.atLeast(f.Since))
	}
	if !f.Until.IsZero() {
		c = append(c, letters.LastFailed.below(f.Until))
	}
	return append(c, contains(f.Text, letters.Error, letters.MessageID, letters.Key, letters.Correlation)...)
}

// DeadLetters implements [deadletter.Store]. Round trips: 1, and 1 for each dead letter that parks its key.
func (e *Engine[S]) DeadLetters(ctx context.Context, f deadletter.Filter) ([]deadletter.Letter, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	c, order := filtered(f), letters.Number.rising()
	if f.Newest {
		order = letters.Number.falling()
	}
	switch {
	case f.After != 0 && f.Newest:
		c = append(c, letters.Number.below(f.After))
	case f.After != 0:
		c = append(c, letters.Number.above(f.After))
	}
	q := where(c...).sorted(order).first(cmp.Or(f.Limit, deadletter.DefaultLimit))
	q.Lean = true
	list := []deadletter.Letter{}
	err := e.run(ctx, func(ctx context.Context, t *Tx) error {
		list = list[:0]
		found, err := t.Letters.Find(ctx, q)
		if err != nil {
			return err
		}
		return each(found, func(l *Letter) error {
			shown, err := t.shown(ctx, l)
			shown.History, shown.Message.Payload = nil, nil
			list = append(list, shown)
			return err
		})
	})
	return list, err
}

// shown returns a dead letter as callers get it.
func (t *Tx) shown(ctx context.Context, l *Letter) (shown deadletter.Letter, err error) {
	shown = l.Letter
	shown.Message, shown.History = l.Row.Message.Clone(), slices.Clone(l.History)
	if l.Parks {
		shown.Behind, err = t.behind(ctx, l.Row.unit(), l.Row.Position)
	}
	return shown, err
}

// DeadLetter implements [deadletter.Store]. Round trips: 2 at most.
func (e *Engine[S]) DeadLetter(ctx context.Context, number int64) (shown deadletter.Letter, err error) {
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		l, err := get(ctx, t.Letters, number)
		switch {
		case err != nil:
			return err
		case l == nil:
			return notFound(number)
		}
		shown, err = t.shown(ctx, l)
		return err
	})
	return shown, err
}

func notFound(number int64) error {
	return fmt.Errorf("dead letter %d: %w", number, waybill.ErrNotFound)
}

// DeadLetterGroups implements [deadletter.Store]. It reads every dead letter, without its message. Round trips:
// 1.
func (e *Engine[S]) DeadLetterGroups(ctx context.Context, limit int) ([]deadletter.Group, error) {
	groups := make(map[string]deadletter.Group)
	err := e.run(ctx, func(ctx context.Context, t *Tx) error {
		clear(groups)
		found, err := t.Letters.Find(ctx, Query[*Letter]{}.sorted(letters.Number.rising()).only(
			letters.Topic.Name, letters.Type.Name, letters.Number.Name, letters.Origin.Name, letters.Consumer.Name, letters.Fingerprint.Name,
			letters.State.Name, letters.Requeued.Name, letters.Why.Name, letters.Error.Name, letters.LastFailed.Name))
		for _, l := range found {
			groups[l.Fingerprint] = l.addTo(groups[l.Fingerprint], t.Now)
		}
		return err
	})
	list := []deadletter.Group{}
	for _, g := range groups {
		if g.Open > 0 {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b deadletter.Group) int {
		return cmp.Or(cmp.Compare(b.Open, a.Open), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	return list[:min(limit, len(list))], err
}

// addTo returns a group with one more dead letter, which is its newest.
func (l *Letter) addTo(g deadletter.Group, now time.Time) deadletter.Group {
	if ago := now.Truncate(time.Hour).Sub(l.LastFailed.Truncate(time.Hour)) / time.Hour; ago >= 0 && ago < time.Duration(len(g.Trend)) {
		g.Trend[len(g.Trend)-1-int(ago)]++
	}
	if l.State == deadletter.Open && !l.Requeued {
		g.Fingerprint, g.Origin, g.Consumer, g.Topic, g.Type = l.Fingerprint, l.Origin, l.Consumer, l.Row.Message.Address(), l.Row.Message.Type
		g.Reason, g.Error, g.Newest, g.LastFailed = l.Reason, l.Error, l.Number, l.LastFailed
		g.Open++
	}
	return g
}

// FoldDeadLetters does nothing: there are no sums to maintain.
func (*Engine[S]) FoldDeadLetters(context.Context) error { return nil }

// ResolveDeadLetter implements [deadletter.Store]. Round trips: 8 at most, and 11 to delete one.
func (e *Engine[S]) ResolveDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return e.settleLetter(ctx, number, deadletter.Resolved, deadletter.ActResolve, act)
}

// DiscardDeadLetter implements [deadletter.Store].
func (e *Engine[S]) DiscardDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return e.settleLetter(ctx, number, deadletter.Discarded, deadletter.ActDiscard, act)
}

func (e *Engine[S]) settleLetter(ctx context.Context, number int64, state deadletter.State, action deadletter.Action, act deadletter.Act) (bool, error) {
	return e.change(ctx, number, action, act, func(ctx context.Context, t *Tx, l *Letter) (bool, string, error) {
		return true, "", t.settleAs(ctx, l, state, act.Why)
	})
}

// RestoreDeadLetter implements [deadletter.Store].
func (e *Engine[S]) RestoreDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return e.change(ctx, number, deadletter.ActRestore, act, func(ctx context.Context, t *Tx, l *Letter) (bool, string, error) {
		l.State, l.Resolution, l.ResolvedAt = deadletter.Open, "", nil
		return true, "", t.Letters.Put(ctx, l)
	})
}

// DeleteDeadLetter implements [deadletter.Store]. The record of a consumer's dead letter expires from then on;
// before, it stayed as long as the dead letter.
func (e *Engine[S]) DeleteDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return e.change(ctx, number, deadletter.ActDelete, act, func(ctx context.Context, t *Tx, l *Letter) (bool, string, error) {
		if err := t.settleAs(ctx, l, deadletter.Discarded, ""); err != nil {
			return false, "", err
		}
		if err := t.Letters.Delete(ctx, number); err != nil || l.Origin != deadletter.FromConsumer {
			return true, "", err
		}
		r, err := get(ctx, t.Inbox, l.Key)
		if err != nil || r == nil || !r.Dead {
			return true, "", err
		}
		r.Dead = false
		return true, "", t.Inbox.Put(ctx, r)
	})
}

// letterState returns the state by which actions on a dead letter are allowed or refused.
func (l *Letter) letterState() LetterState {
	return LetterState{l.Origin, l.State, l.Requeued, l.Origin == deadletter.FromConsumer && l.Key.Message == ""}
}

// change makes a change to a dead letter, if its state allows that, and writes the audit log. fn reports
// whether it has changed anything, and returns details for the audit log.
func (e *Engine[S]) change(ctx context.Context, number int64, action deadletter.Action, act deadletter.Act,
	fn func(ctx context.Context, t *Tx, l *Letter) (changed bool, detail string, err error),
) (changed bool, err error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		l, state, err := t.lookAt(ctx, number)
		if err != nil {
			return err
		}
		if changed, err = May(action, state); err != nil || !changed {
			return err
		}
		detail := ""
		if changed, detail, err = fn(ctx, t, l); err != nil || !changed {
			return err
		}
		return t.Note(ctx, action, act, deadletter.Entry{Letter: number, MessageID: l.Row.Message.ID, Detail: cmp.Or(detail, state.Detail(action))})
	})
	if err != nil {
		return false, fmt.Errorf("%s dead letter %d: %w", action, number, err)
	}
	if changed {
		e.store.WakeRelay()
	}
	return changed, nil
}

// lookAt returns a dead letter and its state. It returns no dead letter if the message waits in the outbox.
func (t *Tx) lookAt(ctx context.Context, number int64) (*Letter, LetterState, error) {
	l, err := get(ctx, t.Letters, number)
	if err != nil {
		return nil, LetterState{}, err
	}
	if l != nil {
		return l, l.letterState(), nil
	}
	waits, err := exists(ctx, t.Waiting, waits.Letter.is(number))
	if err == nil && !waits {
		err = notFound(number)
	}
	return nil, LetterState{Origin: deadletter.FromRelay, State: deadletter.Open, Requeued: true}, err
}

func (t *Tx) settleAs(ctx context.Context, l *Letter, state deadletter.State, resolution string) error {
	if err := t.Lock(ctx, l.Row.Lane); err != nil {
		return err
	}
	now := t.Now
	l.State, l.ResolvedAt, l.Resolution, l.Parks = state, &now, resolution, false
	if err := t.Letters.Put(ctx, l); err != nil || l.Origin != deadletter.FromRelay {
		return err
	}
	return t.promote(ctx, l.Row.unit())
}

// AuditLog implements [deadletter.Store]. Round trips: 1.
func (e *Engine[S]) AuditLog(ctx context.Context, f deadletter.AuditFilter) ([]deadletter.Entry, error) {
	c := append(entries.Action.isIf(f.Action), entries.By.isIf(f.By)...)
	c = append(c, entries.Letter.isIf(f.Letter)...)
	c = append(c, entries.MessageID.isIf(f.MessageID)...)
	c = append(c, entries.Replay.isIf(f.Replay)...)
	if f.Before != 0 {
		c = append(c, entries.Number.below(f.Before))
	}
	list := []deadletter.Entry{}
	err := e.run(ctx, func(ctx context.Context, t *Tx) error {
		list = list[:0]
		found, err := t.Audit.Find(ctx, where(c...).sorted(entries.Number.falling()).first(cmp.Or(f.Limit, deadletter.DefaultLimit)))
		for _, entry := range found {
			list = append(list, *entry)
		}
		return err
	})
	return list, err
}

// Note writes an entry of the audit log; e says what it is about.
func (t *Tx) Note(ctx context.Context, action deadletter.Action, act deadletter.Act, e deadletter.Entry) error {
	number, _, err := t.Draw(ctx, Entries, 1)
	if err != nil {
		return err
	}
	e.Number, e.At, e.Action, e.By, e.Why = number, t.Now, action, act.By, act.Why
	return t.Audit.Add(ctx, &e)
}

// RecordAudit implements [deadletter.Auditor]. Round trips: 2.
func (e *Engine[S]) RecordAudit(ctx context.Context, entry deadletter.Entry) error {
	act := deadletter.Act{By: entry.By, Why: entry.Why}
	if err := act.Check(); err != nil {
		return err
	}
	return e.run(ctx, func(ctx context.Context, t *Tx) error { return t.Note(ctx, entry.Action, act, entry) })
}
