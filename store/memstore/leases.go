package memstore

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/inbox"
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

// waitsAt reports whether nobody may begin the key yet, since it was released.
func (r leaseRow) waitsAt(now time.Time) bool { return r.due.After(now) }

// settled says what became of the lease with the given id, or "" if it can still be settled.
func (r leaseRow) settled(id string) inbox.LeaseStatus {
	switch {
	case r.id == "":
		return inbox.LeaseUnknown
	case r.id != id:
		return inbox.LeaseLost
	case r.processed:
		return inbox.LeaseProcessed
	case r.until.IsZero():
		return inbox.LeaseReleased
	}
	return ""
}

// TryBegin implements [inbox.LeaseStore].
func (s *Store) TryBegin(ctx context.Context, req inbox.LeaseRequest) (inbox.LeaseAnswer, error) {
	answers, err := s.TryBeginAll(ctx, []inbox.LeaseRequest{req})
	if err != nil {
		return inbox.LeaseAnswer{}, err
	}
	return answers[0], nil
}

// TryBeginAll implements [inbox.BatchLeaseStore].
func (s *Store) TryBeginAll(ctx context.Context, reqs []inbox.LeaseRequest) ([]inbox.LeaseAnswer, error) {
	keys := make([]string, len(reqs))
	for i := range reqs {
		if err := reqs[i].Validate(); err != nil {
			return nil, err
		}
		keys[i] = reqs[i].Key
	}
	if err := inbox.ValidateLeaseBatch(keys); err != nil {
		return nil, err
	}
	answers := make([]inbox.LeaseAnswer, len(reqs))
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

func (s *Store) tryBegin(tx *Tx, req inbox.LeaseRequest) inbox.LeaseAnswer {
	now := s.now()
	row := s.data.leases[req.Key]
	switch {
	case row.processed:
		return inbox.LeaseAnswer{Status: inbox.LeaseProcessed, Attempts: row.attempts, Conflict: req.Conflicts(row.hash)}
	case row.heldAt(now) && row.id == req.RequestID:
		return row.answer(inbox.LeaseAcquired, row.until, now)
	case row.heldAt(now):
		return row.answer(inbox.LeaseBusy, row.until, now)
	case row.waitsAt(now):
		return row.answer(inbox.LeaseBusy, row.due, now)
	case req.MaxAttempts > 0 && row.attempts >= req.MaxAttempts:
		return inbox.LeaseAnswer{Status: inbox.LeaseExhausted, Attempts: row.attempts}
	}
	if row.first.IsZero() {
		row.first = now
	}
	row.id, row.owner, row.hash = req.LeaseID(), req.Owner, req.PayloadHash
	row.token++
	row.attempts++
	row.last, row.until, row.due = now, now.Add(req.TTL), time.Time{}
	put(tx, s.data.leases, req.Key, row)
	return row.answer(inbox.LeaseAcquired, row.until, now)
}

// answer tells the holder of a lease how long it lasts, or others how long they can't have the key.
func (r leaseRow) answer(status inbox.LeaseStatus, ends, now time.Time) inbox.LeaseAnswer {
	a := inbox.LeaseAnswer{Status: status, Attempts: r.attempts, ExpiresAt: ends.UTC(), Remaining: ends.Sub(now)}
	if status == inbox.LeaseAcquired {
		a.LeaseID, a.Token = r.id, r.token
	}
	return a
}

// RenewLease implements [inbox.LeaseStore].
func (s *Store) RenewLease(ctx context.Context, l inbox.Lease, ttl time.Duration) (answer inbox.LeaseAnswer, err error) {
	if err := inbox.ValidateLeaseTTL(ttl); err != nil {
		return answer, err
	}
	err = s.changeLease(ctx, l.Key, func(tx *Tx, row leaseRow, now time.Time) {
		if status := row.settled(l.ID); status != "" {
			answer = inbox.LeaseAnswer{Status: status}
			if status != inbox.LeaseLost {
				answer.Attempts = row.attempts
			}
			return
		}
		row.last, row.until = now, now.Add(ttl)
		put(tx, s.data.leases, l.Key, row)
		answer = row.answer(inbox.LeaseAcquired, row.until, now)
	})
	return answer, err
}

// MarkProcessed implements [inbox.LeaseStore].
func (s *Store) MarkProcessed(ctx context.Context, l inbox.Lease) (status inbox.LeaseStatus, err error) {
	err = s.changeLease(ctx, l.Key, func(tx *Tx, row leaseRow, now time.Time) { status = s.mark(tx, l, row, now) })
	return status, err
}

// MarkAllProcessed implements [inbox.BatchLeaseStore].
func (s *Store) MarkAllProcessed(ctx context.Context, leases []inbox.Lease) ([]inbox.LeaseStatus, error) {
	keys := make([]string, len(leases))
	for i, l := range leases {
		if err := inbox.ValidateLeaseKey(l.Key); err != nil {
			return nil, err
		}
		keys[i] = l.Key
	}
	if err := inbox.ValidateLeaseBatch(keys); err != nil {
		return nil, err
	}
	statuses := make([]inbox.LeaseStatus, len(leases))
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

func (s *Store) mark(tx *Tx, l inbox.Lease, row leaseRow, now time.Time) inbox.LeaseStatus {
	if status := row.settled(l.ID); status != "" {
		return status
	}
	row.processed, row.last, row.until = true, now, time.Time{}
	put(tx, s.data.leases, l.Key, row)
	return inbox.LeaseProcessed
}

// ReleaseLease implements [inbox.LeaseStore].
func (s *Store) ReleaseLease(ctx context.Context, l inbox.Lease, r inbox.Release) (status inbox.LeaseStatus, err error) {
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
		status = inbox.LeaseReleased
	})
	return status, err
}

// changeLease runs fn with the row of a key, empty if there is none, in a transaction.
func (s *Store) changeLease(ctx context.Context, key string, fn func(tx *Tx, row leaseRow, now time.Time)) error {
	if err := inbox.ValidateLeaseKey(key); err != nil {
		return err
	}
	return s.inTx(ctx, func(tx *Tx) error {
		fn(tx, s.data.leases[key], s.now())
		return nil
	})
}

// ReadLease implements [inbox.LeaseStore].
func (s *Store) ReadLease(ctx context.Context, key string) (rec inbox.LeaseRecord, err error) {
	err = s.changeLease(ctx, key, func(_ *Tx, row leaseRow, now time.Time) {
		rec = inbox.LeaseRecord{
			Status: inbox.LeaseReleased, Owner: row.owner, Token: row.token, Attempts: row.attempts,
			FirstSeen: row.first.UTC(), LastSeen: row.last.UTC(), LeaseUntil: row.until.UTC(),
			DueAt: row.due.UTC(), PayloadHash: row.hash,
		}
		switch {
		case row.id == "":
			rec = inbox.LeaseRecord{Status: inbox.LeaseUnknown}
		case row.processed:
			rec.Status = inbox.LeaseProcessed
		case row.heldAt(now):
			rec.Status = inbox.LeaseBusy
		case !row.until.IsZero():
			rec.Status = inbox.LeaseExpired
		}
	})
	return rec, err
}

// PurgeLeases implements [inbox.LeaseStore].
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
