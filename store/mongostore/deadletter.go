package mongostore

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
)

// filterOf returns what matches the letters of a filter.
func filterOf(f deadletter.Filter) bson.M {
	m := bson.M{"state": cmp.Or(f.State, deadletter.Open)}
	for field, want := range map[string]string{
		"origin": string(f.Origin), "consumer": f.Consumer, "row.topic": f.Topic, "row.message.type": f.Type,
		"row.message.tenant": f.Tenant, "row.message_id": f.MessageID, "row.key": f.Key, "row.message.correlation_id": f.CorrelationID, "fingerprint": f.Fingerprint,
	} {
		if want != "" {
			m[field] = want
		}
	}
	last := bson.M{}
	if !f.Since.IsZero() {
		last["$gte"] = f.Since
	}
	if !f.Until.IsZero() {
		last["$lt"] = f.Until
	}
	if len(last) > 0 {
		m["last_failed_at"] = last
	}
	if f.Text != "" {
		m["$or"] = haveText(f.Text, "error", "row.message_id", "row.key", "row.message.correlation_id")
	}
	return m
}

// withoutPayload leaves out what together may be more than fits into memory.
var withoutPayload = bson.M{"row.message.payload": 0, "history": 0}

// haveText returns what matches where one of the fields has the text in it, whatever its case.
func haveText(text string, fields ...string) bson.A {
	pattern := bson.M{"$regex": regexp.QuoteMeta(text), "$options": "i"}
	list := bson.A{}
	for _, field := range fields {
		list = append(list, bson.M{field: pattern})
	}
	return list
}

// DeadLetters implements [deadletter.Store].
func (s *Store) DeadLetters(ctx context.Context, f deadletter.Filter) ([]deadletter.Letter, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	m, order := filterOf(f), "_id"
	if f.After != 0 {
		m["_id"] = bson.M{"$gt": f.After}
	}
	if f.Newest {
		order = "-_id"
		if f.After != 0 {
			m["_id"] = bson.M{"$lt": f.After}
		}
	}
	var list []deadletter.Letter
	err := s.inTx(ctx, func(ctx context.Context, t *tx) error {
		list = []deadletter.Letter{}
		docs, err := find[letterDoc](ctx, s.letters, m, sorted(order).SetProjection(withoutPayload).SetLimit(int64(cmp.Or(f.Limit, deadletter.DefaultLimit))))
		if err != nil {
			return err
		}
		return each(docs, func(d letterDoc) error {
			l, err := t.shown(ctx, d)
			l.History = nil
			list = append(list, l)
			return err
		})
	})
	return list, err
}

// shown returns a letter as callers get it.
func (t *tx) shown(ctx context.Context, d letterDoc) (l deadletter.Letter, err error) {
	l = d.Letter
	l.Message = d.Row.Message.message()
	if l.Parks {
		l.Behind, err = t.behind(ctx, d.Row.unit(), d.Row.Position)
	}
	return l, err
}

// DeadLetter implements [deadletter.Store].
func (s *Store) DeadLetter(ctx context.Context, number int64) (l deadletter.Letter, err error) {
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		d, found, err := t.letter(ctx, number)
		if err != nil {
			return err
		}
		if !found {
			return notFound(number)
		}
		l, err = t.shown(ctx, d)
		return err
	})
	return l, err
}

func (t *tx) letter(ctx context.Context, number int64) (letterDoc, bool, error) {
	return findOne[letterDoc](ctx, t.letters, bson.M{"_id": number})
}

func notFound(number int64) error {
	return fmt.Errorf("dead letter %d: %w", number, waybill.ErrNotFound)
}

// DeadLetterGroups implements [deadletter.Store]. It reads every letter, without its message.
func (s *Store) DeadLetterGroups(ctx context.Context, limit int) ([]deadletter.Group, error) {
	groups := make(map[string]deadletter.Group)
	err := s.inTx(ctx, func(ctx context.Context, t *tx) error {
		clear(groups)
		docs, err := find[letterDoc](ctx, s.letters, bson.M{}, sorted("_id").SetProjection(only(
			"row.topic", "row.message.type", "number", "origin", "consumer", "fingerprint", "state", "requeued", "reason", "error", "last_failed_at")))
		for _, d := range docs {
			groups[d.Fingerprint] = d.addTo(groups[d.Fingerprint], t.now)
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

// addTo returns a group with one more letter, which is its newest.
func (l *letterDoc) addTo(g deadletter.Group, now time.Time) deadletter.Group {
	if ago := now.Truncate(time.Hour).Sub(l.LastFailed.Truncate(time.Hour)) / time.Hour; ago >= 0 && ago < time.Duration(len(g.Trend)) {
		g.Trend[len(g.Trend)-1-int(ago)]++
	}
	if l.State == deadletter.Open && !l.Requeued {
		g.Fingerprint, g.Origin, g.Consumer, g.Topic, g.Type = l.Fingerprint, l.Origin, l.Consumer, l.Row.Topic, l.Row.Message.Type
		g.Reason, g.Error, g.Newest, g.LastFailed = l.Reason, l.Error, l.Number, l.LastFailed
		g.Open++
	}
	return g
}

// FoldDeadLetters does nothing: there are no sums to keep.
func (s *Store) FoldDeadLetters(context.Context) error { return nil }

// ResolveDeadLetter implements [deadletter.Store].
func (s *Store) ResolveDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return s.settleLetter(ctx, number, deadletter.Resolved, deadletter.ActResolve, act)
}

// DiscardDeadLetter implements [deadletter.Store].
func (s *Store) DiscardDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return s.settleLetter(ctx, number, deadletter.Discarded, deadletter.ActDiscard, act)
}

func (s *Store) settleLetter(ctx context.Context, number int64, state deadletter.State, action deadletter.Action, act deadletter.Act) (bool, error) {
	return s.changeLetter(ctx, number, action, act, func(ctx context.Context, t *tx, l letterDoc) (bool, error) {
		if l.State != deadletter.Open {
			return false, nil
		}
		return true, t.settleAs(ctx, l, state, act.Why)
	})
}

// RestoreDeadLetter implements [deadletter.Store].
func (s *Store) RestoreDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return s.changeLetter(ctx, number, deadletter.ActRestore, act, func(ctx context.Context, t *tx, l letterDoc) (bool, error) {
		if l.State == deadletter.Open {
			return false, nil
		}
		l.State, l.Resolution, l.ResolvedAt = deadletter.Open, "", nil
		return true, save(ctx, t.letters, l.ID, l)
	})
}

// DeleteDeadLetter implements [deadletter.Store].
func (s *Store) DeleteDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return s.changeLetter(ctx, number, deadletter.ActDelete, act, func(ctx context.Context, t *tx, l letterDoc) (bool, error) {
		if err := t.settleAs(ctx, l, deadletter.Discarded, ""); err != nil {
			return false, err
		}
		// The record expires now; before, it stayed as long as the letter.
		if _, err := t.inbox.UpdateOne(ctx, bson.M{"_id": l.InboxKey, "dead": true}, bson.M{"$set": bson.M{"dead": false}}); err != nil {
			return false, err
		}
		return true, remove(ctx, t.letters, l.ID)
	})
}

// changeLetter makes a change to a letter that is not on its way, and writes the audit log.
func (s *Store) changeLetter(ctx context.Context, number int64, action deadletter.Action, act deadletter.Act,
	fn func(ctx context.Context, t *tx, l letterDoc) (bool, error),
) (changed bool, err error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		changed = false
		l, err := t.unsettled(ctx, number)
		if err != nil {
			return err
		}
		if changed, err = fn(ctx, t, l); err != nil || !changed {
			return err
		}
		entry := deadletter.Entry{Letter: number, MessageID: l.Row.MessageID}
		if action == deadletter.ActRestore || action == deadletter.ActDelete {
			entry.Detail = "was " + string(l.State)
		}
		return t.note(ctx, action, act, entry)
	})
	if err != nil || !changed {
		return false, err
	}
	s.WakeRelay()
	return true, nil
}

// unsettled returns a letter that is not on its way.
func (t *tx) unsettled(ctx context.Context, number int64) (letterDoc, error) {
	l, found, err := t.letter(ctx, number)
	if err != nil || found && !l.Requeued {
		return l, err
	}
	if !found {
		if err := t.whereIs(ctx, number); err != nil {
			return l, err
		}
	}
	return l, fmt.Errorf("dead letter %d: %w", number, deadletter.ErrRequeued)
}

// whereIs tells a letter that is on its way already from one that never was.
func (t *tx) whereIs(ctx context.Context, number int64) error {
	waits, err := exists(ctx, t.waiting, bson.M{"letter": number})
	if err == nil && !waits {
		return notFound(number)
	}
	return err
}

func (t *tx) settleAs(ctx context.Context, l letterDoc, state deadletter.State, resolution string) error {
	if err := t.lockLanes(ctx, l.Row.Lane); err != nil {
		return err
	}
	l.State, l.ResolvedAt, l.Resolution, l.Parks = state, &t.now, resolution, false
	if err := save(ctx, t.letters, l.ID, l); err != nil || l.Origin != deadletter.FromRelay {
		return err
	}
	return t.promote(ctx, l.Row.unit())
}

// AuditLog implements [deadletter.Store].
func (s *Store) AuditLog(ctx context.Context, f deadletter.AuditFilter) ([]deadletter.Entry, error) {
	m := bson.M{}
	set(m, "action", f.Action)
	set(m, "by", f.By)
	set(m, "letter", f.Letter)
	set(m, "message_id", f.MessageID)
	set(m, "replay", f.Replay)
	if f.Before != 0 {
		m["_id"] = bson.M{"$lt": f.Before}
	}
	docs, err := find[entryDoc](ctx, s.audit, m, sorted("-_id").SetLimit(int64(cmp.Or(f.Limit, deadletter.DefaultLimit))))
	entries := make([]deadletter.Entry, len(docs))
	for i, d := range docs {
		entries[i] = d.Entry
	}
	return entries, wrap("read the audit log", err)
}

// set asks for a value in a field, unless it is the zero value.
func set[T comparable](m bson.M, field string, value T) {
	var zero T
	if value != zero {
		m[field] = value
	}
}

type entryDoc struct {
	ID               int64 `bson:"_id"` // the number
	deadletter.Entry `bson:",inline"`
}

// note writes an entry of the audit log; e says what it is about.
func (t *tx) note(ctx context.Context, action deadletter.Action, act deadletter.Act, e deadletter.Entry) error {
	number, _, err := t.draw(ctx, counterAudit, 1)
	if err != nil {
		return err
	}
	e.Number, e.At, e.Action, e.By, e.Why = number, t.now, action, act.By, act.Why
	return save(ctx, t.audit, number, entryDoc{number, e})
}

// RecordAudit implements [deadletter.Auditor].
func (s *Store) RecordAudit(ctx context.Context, e deadletter.Entry) error {
	act := deadletter.Act{By: e.By, Why: e.Why}
	if err := act.Check(); err != nil {
		return err
	}
	return s.inTx(ctx, func(ctx context.Context, t *tx) error { return t.note(ctx, e.Action, act, e) })
}
