package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/janitor"
)

// CountExpired implements [janitor.Store].
func (s *Store) CountExpired(ctx context.Context, rows janitor.Rows) (n int64, err error) {
	err = s.inTx(ctx, func(*Tx) error {
		expired, err := s.expired(rows)
		n = int64(len(expired))
		return err
	})
	return n, err
}

// PurgeExpired implements [janitor.Store]. Transactions are one at a time, so it is never
// busy.
func (s *Store) PurgeExpired(ctx context.Context, rows janitor.Rows, limit int) (n int64, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		expired, err := s.expired(rows)
		if err != nil {
			return err
		}
		expired = expired[:min(limit, len(expired))]
		for _, remove := range expired {
			remove(tx)
		}
		n = int64(len(expired))
		if rows.Kind == janitor.Letters && n > 0 {
			s.audit(tx, deadletter.ActCleanup, deadletter.Act{By: "janitor"}, deadletter.Entry{Detail: fmt.Sprintf("%d letters", n)})
		}
		return nil
	})
	return n, err
}

// expired returns a function for each row to remove, which removes it.
func (s *Store) expired(rows janitor.Rows) ([]func(tx *Tx), error) {
	limit := s.now().Add(-rows.OlderThan)
	mine := func(tenant string) bool { return rows.Tenant == "" || rows.Tenant == tenant }
	switch rows.Kind {
	case janitor.Inbox:
		return removals(s.data.inbox, func(k inbox.Key, r record) bool {
			return !r.dead && !r.processedAt.After(limit) && mine(k.Tenant)
		}), nil
	case janitor.Attempts:
		return removals(s.data.attempts, func(k inbox.Key, a attempt) bool { return !a.due.After(limit) && mine(k.Tenant) }), nil
	case janitor.Leases:
		if rows.Tenant != "" {
			return nil, nil
		}
		return s.expiredLeases(rows.OlderThan), nil
	case janitor.Letters:
		return s.expiredLetters(limit, mine), nil
	case janitor.Sagas:
		return s.expiredSagas(limit, mine), nil
	case janitor.Audit:
		return s.expiredEntries(limit, rows.Tenant), nil
	case janitor.Responses:
		return removals(s.data.responses, func(_ string, r savedResponse) bool { return rows.Tenant == "" && !r.until.After(limit) }), nil
	}
	return nil, fmt.Errorf("there are no rows of the kind %q to remove", rows.Kind)
}

func removals[K comparable, V any](m map[K]V, expired func(K, V) bool) []func(tx *Tx) {
	var list []func(tx *Tx)
	for k, v := range m {
		if expired(k, v) {
			list = append(list, func(tx *Tx) { drop(tx, m, k) })
		}
	}
	return list
}

// expiredLetters removes, with a consumer's letter, the record that says so.
func (s *Store) expiredLetters(limit time.Time, mine func(tenant string) bool) []func(tx *Tx) {
	var list []func(tx *Tx)
	for number, l := range s.data.letters {
		if l.over().After(limit) || !l.requeuedAt.IsZero() || !mine(l.row.message.Tenant) || l.Parks && s.data.behind(unitOf(&l.row, l.Destination), l.position) > 0 {
			continue
		}
		list = append(list, func(tx *Tx) {
			drop(tx, s.data.letters, number)
			if s.data.inbox[l.key].dead {
				drop(tx, s.data.inbox, l.key)
			}
		})
	}
	return list
}

// over returns since when nothing has happened to the letter.
func (l *letter) over() time.Time {
	if l.ResolvedAt != nil {
		return *l.ResolvedAt
	}
	return l.LastFailed
}

// expiredEntries are the first of the log, because each is younger than the one before.
func (s *Store) expiredEntries(limit time.Time, tenant string) []func(tx *Tx) {
	var list []func(tx *Tx)
	for _, e := range s.data.audit {
		if tenant == "" && !e.At.After(limit) {
			list = append(list, func(tx *Tx) {
				before := s.data.audit
				tx.undo = append(tx.undo, func() { s.data.audit = before })
				s.data.audit = before[1:]
			})
		}
	}
	return list
}
