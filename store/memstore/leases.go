package memstore

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
)

// leaseRow is what is known of a key of the lease contract.
type leaseRow struct {
	id, owner   string
	token       int64
	attempts    int
	first, last time.Time // seen
	until       time.Time // zero once it is released or processed
	due         time.Time // zero unless it was released with a wait
	processed   bool
	hash        string // of the payload
}

// heldAt reports whether somebody has the key.
func (r leaseRow) heldAt(now time.Time) bool { return r.until.After(now) }

// waitsAt reports whether the key was released with a wait that has not ended.
func (r leaseRow) waitsAt(now time.Time) bool { return r.due.After(now) }

// settled returns what became of the lease with the given id, or "" if it can still be settled.
func (r leaseRow) settled(id string) lease.Status {
	switch {
	case r.id == "":
		return lease.Unknown
	case r.id != id:
		return lease.Lost
	case r.processed:
		return lease.Processed
	case r.until.IsZero():
		return lease.Released
	}
	return ""
}

// TryBegin implements [lease.Store].
func (s *Store) TryBegin(ctx context.Context, req lease.Request) (lease.Answer, error) {
	answers, err := s.TryBeginAll(ctx, []lease.Request{req})
	if err != nil {
		return lease.Answer{}, err
	}
	return answers[0], nil
}

// TryBeginAll implements [lease.BatchStore].
func (s *Store) TryBeginAll(ctx context.Context, reqs []lease.Request) ([]lease.Answer, error) {
	keys := make([]string, len(reqs))
	for i := range reqs {
		if err := reqs[i].Validate(); err != nil {
			return nil, err
		}
		keys[i] = reqs[i].Key
	}
	if err := lease.ValidateBatch(keys); err != nil {
		return nil, err
	}
	answers := make([]lease.Answer, len(reqs))
	err := s.inTx(ctx, func(tx *Tx) error {
		for i, req := range reqs {
			answers[i] = s.tryBegin(tx, req)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func (s *Store) tryBegin(tx *Tx, req lease.Request) lease.Answer {
	now := s.now()
	row := s.data.leases[req.Key]
	switch {
	case row.processed:
		return lease.Answer{Status: lease.Processed, Attempts: row.attempts, Conflict: req.Conflicts(row.hash)}
	case row.heldAt(now) && row.id == req.RequestID:
		return row.answer(lease.Acquired, row.until, now)
	case row.heldAt(now):
		return row.answer(lease.Busy, row.until, now)
	case row.waitsAt(now):
		return row.answer(lease.Busy, row.due, now)
	case req.MaxAttempts > 0 && row.attempts >= req.MaxAttempts:
		return lease.Answer{Status: lease.Exhausted, Attempts: row.attempts}
	}
	if row.first.IsZero() {
		row.first = now
	}
	row.id, row.owner, row.hash = req.LeaseID(), req.Owner, req.PayloadHash
	row.token++
	row.attempts++
	row.last, row.until, row.due = now, now.Add(req.TTL), time.Time{}
	put(tx, s.data.leases, req.Key, row)
	return row.answer(lease.Acquired, row.until, now)
}

// answer tells the holder of a lease how long it lasts, or others how long they can't have the key.
func (r leaseRow) answer(status lease.Status, ends, now time.Time) lease.Answer {
	a := lease.Answer{Status: status, Attempts: r.attempts, ExpiresAt: ends.UTC(), Remaining: ends.Sub(now)}
	if status == lease.Acquired {
		a.LeaseID, a.Token = r.id, r.token
	}
	return a
}

// RenewLease implements [lease.Store].
func (s *Store) RenewLease(ctx context.Context, l lease.Lease, ttl time.Duration) (answer lease.Answer, err error) {
	if err := lease.ValidateTTL(ttl); err != nil {
		return answer, err
	}
	err = s.changeLease(ctx, l.Key, func(tx *Tx, row leaseRow, now time.Time) {
		if status := row.settled(l.ID); status != "" {
			answer = lease.Answer{Status: status}
			if status != lease.Lost {
				answer.Attempts = row.attempts
			}
			return
		}
		row.last, row.until = now, now.Add(ttl)
		put(tx, s.data.leases, l.Key, row)
		answer = row.answer(lease.Acquired, row.until, now)
	})
	return answer, err
}

// MarkProcessed implements [lease.Store].
func (s *Store) MarkProcessed(ctx context.Context, l lease.Lease) (status lease.Status, err error) {
	err = s.changeLease(ctx, l.Key, func(tx *Tx, row leaseRow, now time.Time) { status = s.mark(tx, l, row, now) })
	return status, err
}

// MarkAllProcessed implements [lease.BatchStore].
func (s *Store) MarkAllProcessed(ctx context.Context, leases []lease.Lease) ([]lease.Status, error) {
	keys := make([]string, len(leases))
	for i, l := range leases {
		if err := lease.ValidateKey(l.Key); err != nil {
			return nil, err
		}
		keys[i] = l.Key
	}
	if err := lease.ValidateBatch(keys); err != nil {
		return nil, err
	}
	statuses := make([]lease.Status, len(leases))
	err := s.inTx(ctx, func(tx *Tx) error {
		for i, l := range leases {
			statuses[i] = s.mark(tx, l, s.data.leases[l.Key], s.now())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return statuses, nil
}

func (s *Store) mark(tx *Tx, l lease.Lease, row leaseRow, now time.Time) lease.Status {
	if status := row.settled(l.ID); status != "" {
		return status
	}
	row.processed, row.last, row.until = true, now, time.Time{}
	put(tx, s.data.leases, l.Key, row)
	return lease.Processed
}

// ReleaseLease implements [lease.Store].
func (s *Store) ReleaseLease(ctx context.Context, l lease.Lease, r lease.Release) (status lease.Status, err error) {
	if err := r.Validate(); err != nil {
		return "", err
	}
	err = s.changeLease(ctx, l.Key, func(tx *Tx, row leaseRow, now time.Time) {
		if status = row.settled(l.ID); status != "" {
			return
		}
		if r.Uncounted {
			row.attempts--
		}
		row.last, row.until = now, time.Time{}
		if r.Wait > 0 {
			row.due = now.Add(r.Wait)
		}
		put(tx, s.data.leases, l.Key, row)
		status = lease.Released
	})
	return status, err
}

// changeLease runs fn with the row of a key, empty if there is none, in a transaction.
func (s *Store) changeLease(ctx context.Context, key string, fn func(tx *Tx, row leaseRow, now time.Time)) error {
	if err := lease.ValidateKey(key); err != nil {
		return err
	}
	return s.inTx(ctx, func(tx *Tx) error {
		fn(tx, s.data.leases[key], s.now())
		return nil
	})
}

// ReadLease implements [lease.Store].
func (s *Store) ReadLease(ctx context.Context, key string) (rec lease.Record, err error) {
	err = s.changeLease(ctx, key, func(_ *Tx, row leaseRow, now time.Time) {
		rec = lease.Record{
			Status: lease.Released, Owner: row.owner, Token: row.token, Attempts: row.attempts,
			FirstSeen: row.first.UTC(), LastSeen: row.last.UTC(), LeaseUntil: row.until.UTC(),
			DueAt: row.due.UTC(), PayloadHash: row.hash,
		}
		switch {
		case row.id == "":
			rec = lease.Record{Status: lease.Unknown}
		case row.processed:
			rec.Status = lease.Processed
		case row.heldAt(now):
			rec.Status = lease.Busy
		case !row.until.IsZero():
			rec.Status = lease.Expired
		}
	})
	return rec, err
}

// PurgeLeases implements [lease.Store].
func (s *Store) PurgeLeases(ctx context.Context, retention time.Duration, limit int) (n int, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		expired := s.expiredLeases(retention)
		expired = expired[:min(max(limit, 0), len(expired))]
		for _, remove := range expired {
			remove(tx)
		}
		n = len(expired)
		return nil
	})
	return n, err
}

// expiredLeases returns a function for each key to remove, which removes it.
func (s *Store) expiredLeases(retention time.Duration) []func(tx *Tx) {
	now := s.now()
	return removals(s.data.leases, func(r leaseRow) bool {
		return !r.last.After(now.Add(-retention)) && !r.heldAt(now) && !r.waitsAt(now)
	})
}
