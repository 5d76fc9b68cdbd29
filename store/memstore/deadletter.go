package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
)

// DeadLetters implements [deadletter.Store].
func (s *Store) DeadLetters(ctx context.Context, f deadletter.Filter) ([]deadletter.Letter, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	limit := cmp.Or(f.Limit, deadletter.DefaultLimit)
	list := []deadletter.Letter{}
	err := s.inTx(ctx, func(*Tx) error {
		for _, l := range s.lettersOf(f) {
			if len(list) < limit {
				l := s.shown(l)
				l.History, l.Message.Payload = nil, nil
				list = append(list, l)
			}
		}
		return nil
	})
	return list, err
}

// lettersOf returns the letters that match f, in its order.
func (s *Store) lettersOf(f deadletter.Filter) []letter {
	sign := int64(1)
	if f.Newest {
		sign = -1
	}
	return sorted(s.data.letters, func(l letter) bool { return l.matches(f) }, func(l letter) int64 { return sign * l.Number })
}

// shown returns a letter as callers get it.
func (s *Store) shown(l letter) deadletter.Letter {
	l.Letter.Message = l.row.message.Clone()
	if l.Parks {
		l.Behind = s.data.behind(unitOf(&l.row, l.Destination), l.position)
	}
	l.History = slices.Clone(l.History)
	return l.Letter
}

func (l *letter) matches(f deadletter.Filter) bool {
	m := &l.row.message
	equal := func(want, got string) bool { return want == "" || want == got }
	return l.behind(f) && equal(string(f.Origin), string(l.Origin)) && equal(f.Consumer, l.Consumer) &&
		equal(f.Topic, m.Address()) && equal(f.Type, m.Type) && equal(f.Tenant, m.Tenant) && equal(f.MessageID, m.ID) && equal(f.Key, m.Key) &&
		equal(f.CorrelationID, m.CorrelationID) &&
		equal(f.Fingerprint, l.Fingerprint) && l.State == cmp.Or(f.State, deadletter.Open) &&
		(f.Since.IsZero() || !l.LastFailed.Before(f.Since)) && (f.Until.IsZero() || l.LastFailed.Before(f.Until)) && l.says(f.Text)
}

// behind reports whether the letter comes after the last one of the page before.
func (l *letter) behind(f deadletter.Filter) bool {
	return f.After == 0 || f.Newest && l.Number < f.After || !f.Newest && l.Number > f.After
}

func (l *letter) says(text string) bool {
	m := &l.row.message
	return hasText(text, l.Error, m.ID, m.Key, m.CorrelationID)
}

// hasText reports whether one of the fields has the text in it, whatever its case.
func hasText(text string, fields ...string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(fields, func(s string) bool { return strings.Contains(strings.ToLower(s), text) })
}

// DeadLetter implements [deadletter.Store].
func (s *Store) DeadLetter(ctx context.Context, number int64) (found deadletter.Letter, err error) {
	err = s.inTx(ctx, func(*Tx) error {
		l, ok := s.data.letters[number]
		if !ok {
			return notFound(number)
		}
		found = s.shown(l)
		return nil
	})
	return found, err
}

// DeadLetterGroups implements [deadletter.Store].
func (s *Store) DeadLetterGroups(ctx context.Context, limit int) ([]deadletter.Group, error) {
	groups := make(map[string]deadletter.Group)
	err := s.inTx(ctx, func(*Tx) error {
		for _, l := range sorted(s.data.letters, func(letter) bool { return true }, func(l letter) int64 { return l.Number }) {
			g := groups[l.Fingerprint]
			if ago := s.now().Truncate(time.Hour).Sub(l.LastFailed.Truncate(time.Hour)) / time.Hour; ago < time.Duration(len(g.Trend)) {
				g.Trend[len(g.Trend)-1-int(ago)]++
			}
			if l.open() {
				g.Fingerprint, g.Origin, g.Consumer, g.Topic, g.Type = l.Fingerprint, l.Origin, l.Consumer, l.row.message.Address(), l.row.message.Type
				g.Reason, g.Error, g.Newest, g.LastFailed = l.Reason, l.Error, l.Number, l.LastFailed
				g.Open++
			}
			groups[l.Fingerprint] = g
		}
		return nil
	})
	list := sorted(groups, func(g deadletter.Group) bool { return g.Open > 0 }, func(g deadletter.Group) string { return g.Fingerprint })
	slices.SortStableFunc(list, func(a, b deadletter.Group) int { return b.Open - a.Open })
	return append([]deadletter.Group{}, list[:min(limit, len(list))]...), err
}

// FoldDeadLetters does nothing: there are no sums to keep.
func (s *Store) FoldDeadLetters(context.Context) error { return nil }

// open reports whether nothing is decided about the letter and it is not on its way.
func (l *letter) open() bool { return l.State == deadletter.Open && !l.Requeued }

// RequeueDeadLetter implements [deadletter.Store].
func (s *Store) RequeueDeadLetter(ctx context.Context, number int64, act deadletter.Act) (requeued bool, err error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	err = s.inTx(ctx, func(tx *Tx) (err error) {
		requeued, err = s.requeue(tx, number, 0)
		if requeued {
			s.audit(tx, deadletter.ActRequeue, act, deadletter.Entry{Letter: number, MessageID: s.data.messageOf(number)})
		}
		return err
	})
	if requeued {
		s.WakeRelay()
	}
	return requeued, err
}

// requeue puts a letter back, for a replay unless that is 0.
func (s *Store) requeue(tx *Tx, number, replay int64) (bool, error) {
	l, ok := s.data.letters[number]
	l.Replay = replay
	switch {
	case !ok:
		return false, s.whereIs(number)
	case l.State != deadletter.Open:
		return false, fmt.Errorf("dead letter %d: %w", number, deadletter.ErrResolved)
	case l.Origin == deadletter.FromRelay:
		return s.requeueToRelay(tx, l)
	}
	return s.requeueToConsumer(tx, l)
}

// ResolveDeadLetter implements [deadletter.Store].
func (s *Store) ResolveDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return s.settleLetter(ctx, number, deadletter.Resolved, deadletter.ActResolve, act)
}

// DiscardDeadLetter implements [deadletter.Store].
func (s *Store) DiscardDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return s.settleLetter(ctx, number, deadletter.Discarded, deadletter.ActDiscard, act)
}

// RestoreDeadLetter implements [deadletter.Store].
func (s *Store) RestoreDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return s.changeLetter(ctx, number, deadletter.ActRestore, act, func(tx *Tx, l letter) bool {
		if l.State == deadletter.Open {
			return false
		}
		l.State, l.Resolution, l.ResolvedAt = deadletter.Open, "", nil
		put(tx, s.data.letters, number, l)
		return true
	})
}

// DeleteDeadLetter implements [deadletter.Store].
func (s *Store) DeleteDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return s.changeLetter(ctx, number, deadletter.ActDelete, act, func(tx *Tx, l letter) bool {
		s.settleAs(tx, l, deadletter.Discarded, "")
		if r, ok := s.data.inbox[l.key]; ok && r.dead && l.Origin == deadletter.FromConsumer {
			r.dead = false // so that it expires
			put(tx, s.data.inbox, l.key, r)
		}
		drop(tx, s.data.letters, number)
		return true
	})
}

// changeLetter makes a change to a letter that is not on its way, and writes the audit log.
func (s *Store) changeLetter(ctx context.Context, number int64, action deadletter.Action, act deadletter.Act, fn func(*Tx, letter) bool) (changed bool, err error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	err = s.inTx(ctx, func(tx *Tx) error {
		l, err := s.unsettled(number)
		if err != nil {
			return err
		}
		if changed = fn(tx, l); changed {
			s.audit(tx, action, act, deadletter.Entry{Letter: number, MessageID: l.row.message.ID, Detail: detailOf(action, l)})
		}
		return nil
	})
	if changed {
		s.WakeRelay()
	}
	return changed, err
}

// detailOf says what a letter was, where it is not known from the letter any more.
func detailOf(action deadletter.Action, l letter) string {
	if action == deadletter.ActRestore || action == deadletter.ActDelete {
		return "was " + string(l.State)
	}
	return ""
}

func (s *Store) settleLetter(ctx context.Context, number int64, state deadletter.State, action deadletter.Action, act deadletter.Act) (bool, error) {
	return s.changeLetter(ctx, number, action, act, func(tx *Tx, l letter) bool {
		if l.State != deadletter.Open {
			return false
		}
		s.settleAs(tx, l, state, act.Why)
		return true
	})
}

// unsettled returns a letter that is not on its way.
func (s *Store) unsettled(number int64) (letter, error) {
	l, ok := s.data.letters[number]
	switch {
	case ok && !l.Requeued:
		return l, nil
	case !ok && s.whereIs(number) != nil:
		return l, s.whereIs(number)
	}
	return l, fmt.Errorf("dead letter %d: %w", number, deadletter.ErrRequeued)
}

func (s *Store) settleAs(tx *Tx, l letter, state deadletter.State, resolution string) {
	now := s.now()
	l.State, l.ResolvedAt, l.Resolution, l.Parks = state, &now, resolution, false
	put(tx, s.data.letters, l.Number, l)
	if l.Origin == deadletter.FromRelay {
		s.promote(tx, unitOf(&l.row, l.Destination))
	}
}

// EditDeadLetter implements [deadletter.Store].
func (s *Store) EditDeadLetter(ctx context.Context, number int64, edit deadletter.Edit, act deadletter.Act) (id string, err error) {
	if err := act.Check(); err != nil {
		return "", err
	}
	err = s.inTx(ctx, func(tx *Tx) error {
		l, err := s.unsettled(number)
		if err != nil {
			return err
		}
		if l.State != deadletter.Open {
			return fmt.Errorf("dead letter %d: %w", number, deadletter.ErrResolved)
		}
		copied, err := edit.Apply(&l.row.message, waybill.NewID())
		if err != nil {
			return err
		}
		id = copied.ID
		if err := s.requeueCopy(tx, l, copied); err != nil {
			return fmt.Errorf("dead letter %d: %w", number, err)
		}
		s.settleAs(tx, l, deadletter.Resolved, "edited and requeued as "+id)
		s.audit(tx, deadletter.ActEdit, act, deadletter.Entry{Letter: number, MessageID: l.row.message.ID, Detail: id})
		return nil
	})
	if err != nil {
		return "", err
	}
	s.WakeRelay()
	return id, nil
}

// requeueCopy lets the corrected copy of a letter's message take its place, unless another one has it.
func (s *Store) requeueCopy(tx *Tx, l letter, copied waybill.Message) error {
	r := l.row
	r.message = copied
	if l.Origin == deadletter.FromRelay {
		if s.data.pendsBefore(&r) {
			return deadletter.ErrBehind
		}
		w := waitingRow{row: r, destination: l.Destination, life: 1}
		if _, taken := s.data.waiting[w.place()]; taken {
			return deadletter.ErrRequeued
		}
		if !s.data.waitsBefore(unitOf(&r, l.Destination), w.position) {
			w.due = s.now()
		}
		put(tx, s.data.waiting, w.place(), w)
		return nil
	}
	s.data.number++
	l.row, l.Number, l.key = r, s.data.number, inbox.KeyOf(l.Consumer, &copied)
	l.Requeues, l.Requeued, l.requeuedAt = 1, true, s.now()
	l.Fingerprint = deadletter.Fingerprint(deadletter.FromConsumer, l.Consumer, copied.Type, l.Error)
	put(tx, s.data.letters, l.Number, l)
	put(tx, s.data.inbox, l.key, record{Record: inbox.RecordOf(l.Consumer, &copied), dead: true, processedAt: s.now()})
	return nil
}

// AuditLog implements [deadletter.Store].
func (s *Store) AuditLog(ctx context.Context, f deadletter.AuditFilter) ([]deadletter.Entry, error) {
	list := []deadletter.Entry{}
	err := s.inTx(ctx, func(*Tx) error {
		for _, e := range slices.Backward(s.data.audit) {
			if len(list) < cmp.Or(f.Limit, deadletter.DefaultLimit) && matchesAudit(e, f) {
				list = append(list, e)
			}
		}
		return nil
	})
	return list, err
}

func matchesAudit(e deadletter.Entry, f deadletter.AuditFilter) bool {
	return (f.Action == "" || f.Action == e.Action) && (f.By == "" || f.By == e.By) && (f.Letter == 0 || f.Letter == e.Letter) &&
		(f.MessageID == "" || f.MessageID == e.MessageID) && (f.Replay == 0 || f.Replay == e.Replay) && (f.Before == 0 || e.Number < f.Before)
}

// audit writes an entry; e says what it is about.
func (s *Store) audit(tx *Tx, action deadletter.Action, act deadletter.Act, e deadletter.Entry) {
	before := s.data.audit
	tx.undo = append(tx.undo, func() { s.data.audit = before })
	s.data.entries++
	e.Number, e.At, e.Action, e.By, e.Why = s.data.entries, s.now(), action, act.By, act.Why
	s.data.audit = append(slices.Clip(before), e)
}

// whereIs tells a letter that is on its way already from one that never was.
func (s *Store) whereIs(number int64) error {
	for _, w := range s.data.waiting {
		if w.letter == number {
			return nil
		}
	}
	return notFound(number)
}

func notFound(number int64) error {
	return fmt.Errorf("dead letter %d: %w", number, waybill.ErrNotFound)
}

func (s *Store) requeueToRelay(tx *Tx, l letter) (bool, error) {
	if s.data.pendsBefore(&l.row) {
		return false, fmt.Errorf("dead letter %d: %w", l.Number, deadletter.ErrBehind)
	}
	id := l.identity()
	if s.data.pending(id) || s.waitsFor(id, l.Destination) {
		return false, nil
	}
	w := waitingRow{row: l.row, destination: l.Destination, life: l.Requeues + 1, letter: l.Number, replay: l.Replay, history: l.History}
	if _, taken := s.data.waiting[w.place()]; taken {
		return false, nil // by a copy of it
	}
	drop(tx, s.data.letters, l.Number)
	if !s.data.waitsBefore(unitOf(&l.row, l.Destination), w.position) {
		w.due = s.now()
	}
	put(tx, s.data.waiting, w.place(), w)
	return true, nil
}

func (s *Store) requeueToConsumer(tx *Tx, l letter) (bool, error) {
	if l.key.Message == "" {
		return false, waybill.PermanentError(waybill.ReasonNoID,
			fmt.Errorf("dead letter %d has no inbox key: its message has no id, or another one was processed under it; it cannot be run again safely", l.Number))
	}
	if !l.requeuedAt.IsZero() {
		return false, nil
	}
	l.requeuedAt, l.Requeued = s.now(), true
	l.Requeues++
	put(tx, s.data.letters, l.Number, l)
	return true, nil
}

// RecordAudit implements [deadletter.Auditor].
func (s *Store) RecordAudit(ctx context.Context, e deadletter.Entry) error {
	act := deadletter.Act{By: e.By, Why: e.Why}
	if err := act.Check(); err != nil {
		return err
	}
	return s.inTx(ctx, func(tx *Tx) error {
		s.audit(tx, e.Action, act, e)
		return nil
	})
}
