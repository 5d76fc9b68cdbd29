package storetest

import (
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
)

// modelKey is what a store should know of a key. Its methods are the contract in a few lines: what each call
// answers, and what the key is then. The zero value is a key of which nothing is stored. Times are those of the
// store's clock, since any start.
type modelKey struct {
	id                string // of the latest lease
	token             int64
	attempts          int
	last, until, due  time.Duration
	leased, processed bool // leased also after the lease has ended
	hash              string
}

// begin is TryBegin. id is that of a new lease, if there is one: the store may draw it.
func (k modelKey) begin(req lease.Request, id string, now time.Duration) (modelKey, lease.Status) {
	switch {
	case k.processed:
		return k, lease.Processed
	case k.leased && k.until > now && k.id == req.RequestID:
		return k, lease.Acquired
	case k.taken(now):
		return k, lease.Busy
	case req.MaxAttempts > 0 && k.attempts >= req.MaxAttempts:
		return k, lease.Exhausted
	}
	k = modelKey{id: id, token: k.token + 1, attempts: k.attempts + 1, last: now, until: now + req.TTL, leased: true, hash: req.PayloadHash}
	return k, lease.Acquired
}

// taken reports whether the key cannot be begun: it is leased, or it waits.
func (k modelKey) taken(now time.Duration) bool {
	return k.leased && k.until > now || k.due > now
}

// refused returns the status for a holder that may not settle its lease, or "" if it may.
func (k modelKey) refused(id string) lease.Status {
	switch {
	case k.token == 0:
		return lease.Unknown
	case k.id != id:
		return lease.Lost
	case k.processed:
		return lease.Processed
	case !k.leased:
		return lease.Released
	}
	return ""
}

// mark is MarkProcessed.
func (k modelKey) mark(id string, now time.Duration) (modelKey, lease.Status) {
	if status := k.refused(id); status != "" {
		return k, status
	}
	k.processed, k.leased, k.last = true, false, now
	return k, lease.Processed
}

// release is ReleaseLease.
func (k modelKey) release(id string, r lease.Release, now time.Duration) (modelKey, lease.Status) {
	if status := k.refused(id); status != "" {
		return k, status
	}
	k.leased, k.last = false, now
	if r.Wait > 0 {
		k.due = now + r.Wait
	}
	if r.Uncounted {
		k.attempts--
	}
	return k, lease.Released
}

// renew is RenewLease.
func (k modelKey) renew(id string, ttl, now time.Duration) (modelKey, lease.Status) {
	if status := k.refused(id); status != "" {
		return k, status
	}
	k.last, k.until = now, now+ttl
	return k, lease.Acquired
}

// status is that of ReadLease.
func (k modelKey) status(now time.Duration) lease.Status {
	switch {
	case k.token == 0:
		return lease.Unknown
	case k.processed:
		return lease.Processed
	case k.leased && k.until > now:
		return lease.Busy
	case k.leased:
		return lease.Expired
	}
	return lease.Released
}
