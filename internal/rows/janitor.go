package rows

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/janitor"
)

// CountExpired implements [janitor.Store] for the kinds of rows that are tables here.
func (e *Engine[S]) CountExpired(ctx context.Context, rows janitor.Rows) (n int64, err error) {
	err = e.run(ctx, func(ctx context.Context, t *Tx) (err error) {
		n, err = t.countExpired(ctx, rows, t.Now.Add(-rows.OlderThan))
		return err
	})
	return n, err
}

func (t *Tx) countExpired(ctx context.Context, rows janitor.Rows, limit time.Time) (int64, error) {
	var n int
	var err error
	switch rows.Kind {
	case janitor.Inbox:
		n, err = t.Inbox.Count(ctx, expiredRecords(rows.Tenant, limit)...)
	case janitor.Attempts:
		n, err = t.Attempts.Count(ctx, expiredAttempts(rows.Tenant, limit)...)
	case janitor.Letters:
		var list []*Letter
		list, err = t.expiredLetters(ctx, rows.Tenant, limit, 0)
		n = len(list)
	case janitor.Audit:
		if rows.Tenant == "" { // it belongs to none
			n, err = t.Audit.Count(ctx, entries.At.atMost(limit))
		}
	default:
		err = elsewhere(rows.Kind)
	}
	return int64(n), err
}

// elsewhere returns an error for an unknown kind of rows. Some kinds are in none of these tables: a store that
// has them removes them itself.
func elsewhere(k janitor.Kind) error {
	if k == janitor.Leases || k == janitor.Sagas || k == janitor.Responses {
		return nil
	}
	return fmt.Errorf("there are no rows of the kind %q to remove", k)
}

// PurgeExpired implements [janitor.Store] for the kinds of rows that are tables here. It is never busy: of two
// concurrent calls the second finds what the first has left. Round trips: 2; for dead letters 3, and up to 5
// for each.
func (e *Engine[S]) PurgeExpired(ctx context.Context, rows janitor.Rows, limit int) (n int64, err error) {
	if limit <= 0 {
		return 0, nil
	}
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		removed, err := t.purgeExpired(ctx, rows, t.Now.Add(-rows.OlderThan), limit)
		n = int64(removed)
		return err
	})
	return n, err
}

func (t *Tx) purgeExpired(ctx context.Context, rows janitor.Rows, before time.Time, limit int) (int, error) {
	switch rows.Kind {
	case janitor.Inbox:
		return t.removeRecords(ctx, expiredRecords(rows.Tenant, before), limit)
	case janitor.Attempts:
		found, err := t.Attempts.Find(ctx, where(expiredAttempts(rows.Tenant, before)...).first(limit).only(attempts.DueAt.Name))
		keys := make([]inbox.Key, len(found))
		for i, a := range found {
			keys[i] = a.Key
		}
		if err != nil {
			return 0, err
		}
		return len(keys), t.Attempts.Delete(ctx, keys...)
	case janitor.Letters:
		return t.purgeLetters(ctx, rows.Tenant, before, limit)
	case janitor.Audit:
		if rows.Tenant != "" {
			return 0, nil
		}
		found, err := t.Audit.Find(ctx, where(entries.At.atMost(before)).sorted(entries.Number.rising()).first(limit).only(entries.Number.Name))
		numbers := make([]int64, len(found))
		for i, e := range found {
			numbers[i] = e.Number
		}
		if err != nil {
			return 0, err
		}
		return len(numbers), t.Audit.Delete(ctx, numbers...)
	}
	return 0, elsewhere(rows.Kind)
}

// expiredRecords holds for records of messages that were processed at a time or before, and are no dead
// letters.
func expiredRecords(tenant string, limit time.Time) []Condition[*Record] {
	return append(records.Tenant.isIf(tenant), records.Dead.is(false), records.ProcessedAt.atMost(limit))
}

func expiredAttempts(tenant string, limit time.Time) []Condition[*Attempt] {
	return append(attempts.Tenant.isIf(tenant), attempts.DueAt.atMost(limit))
}

// expiredLetters returns up to limit dead letters, 0 for all, that are not requeued, have not changed since a
// time, and have nothing waiting behind them.
func (t *Tx) expiredLetters(ctx context.Context, tenant string, before time.Time, limit int) ([]*Letter, error) {
	c := append(letters.Tenant.isIf(tenant), letters.RequeuedAt.none(), anyOf(
		[]Condition[*Letter]{letters.Resolved.atMost(before)},
		[]Condition[*Letter]{letters.Resolved.none(), letters.LastFailed.atMost(before)},
	))
	q := where(c...).sorted(letters.Number.rising())
	q.Lean = true
	found, err := t.Letters.Find(ctx, q)
	if err != nil {
		return nil, err
	}
	var list []*Letter
	for _, l := range found {
		behind := 0
		if l.Parks {
			if behind, err = t.behind(ctx, l.Row.unit(), l.Row.Position); err != nil {
				return nil, err
			}
		}
		if behind == 0 && (limit == 0 || len(list) < limit) {
			list = append(list, l)
		}
	}
	return list, nil
}

// purgeLetters removes dead letters, and with that of a consumer the record that says so.
func (t *Tx) purgeLetters(ctx context.Context, tenant string, before time.Time, limit int) (int, error) {
	list, err := t.expiredLetters(ctx, tenant, before, limit)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	for _, l := range list {
		if err := t.Lock(ctx, l.Row.Lane); err != nil {
			return 0, err
		}
		if err := t.Letters.Delete(ctx, l.Number); err != nil {
			return 0, err
		}
		r, err := get(ctx, t.Inbox, l.Key)
		if err != nil {
			return 0, err
		}
		if r != nil && r.Dead {
			if err := t.Inbox.Delete(ctx, l.Key); err != nil {
				return 0, err
			}
		}
	}
	return len(list), t.Note(ctx, deadletter.ActCleanup, deadletter.Act{By: "janitor"}, deadletter.Entry{Detail: fmt.Sprintf("%d letters", len(list))})
}
