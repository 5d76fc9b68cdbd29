package sqlstore

import (
	"strings"
	"unicode/utf8"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// leaseRow is a row of the lease contract.
type leaseRow struct {
	key, id, owner     string
	token              int64
	attempts           int
	processed          bool
	taken              bool // the key cannot be begun: it is leased, or it waits
	remaining          float64
	first, last, until sqldb.Time
	due                sqldb.Time // zero unless it was released with a wait
	hash               string
}

func scanLease(r sqldb.Rows) (v leaseRow, err error) {
	err = r.Scan(&v.key, &v.id, &v.owner, &v.token, &v.attempts, &v.processed, &v.taken, &v.remaining, &v.first, &v.last, &v.until, &v.due, &v.hash)
	return v, err
}

// begun is the answer to a request that was sent with the given id. The row has that id, and a
// lease, if the request has acquired it, now or before.
func (r leaseRow) begun(id string, req lease.Request) lease.Answer {
	switch {
	case r.processed:
		return lease.Answer{Status: lease.Processed, Attempts: r.attempts, Conflict: req.Conflicts(r.hash)}
	case !r.taken && req.MaxAttempts > 0 && r.attempts >= req.MaxAttempts:
		return lease.Answer{Status: lease.Exhausted, Attempts: r.attempts}
	case r.id == id && !r.until.IsZero():
		return r.lasting(lease.Acquired)
	}
	return r.lasting(lease.Busy)
}

// lasting tells the holder of a lease how long it lasts, or others how long they can't have the key.
func (r leaseRow) lasting(status lease.Status) lease.Answer {
	a := lease.Answer{Status: status, Attempts: r.attempts, ExpiresAt: r.until.UTC(), Remaining: fromMillis(r.remaining)}
	if r.until.IsZero() {
		a.ExpiresAt = r.due.UTC()
	}
	if status == lease.Acquired {
		a.LeaseID, a.Token = r.id, r.token
	}
	return a
}

// settled is what has become of the lease with the given id; [lease.Acquired] if it is
// neither released nor processed. The row of an unknown key is empty.
func (r leaseRow) settled(id string) lease.Status {
	switch {
	case r.key == "":
		return lease.Unknown
	case r.id != id:
		return lease.Lost
	case r.processed:
		return lease.Processed
	case r.until.IsZero():
		return lease.Released
	}
	return lease.Acquired
}

func (r leaseRow) record() lease.Record {
	rec := lease.Record{
		Status: lease.Released, Owner: r.owner, Token: r.token, Attempts: r.attempts,
		FirstSeen: r.first.UTC(), LastSeen: r.last.UTC(), LeaseUntil: r.until.UTC(),
		DueAt: r.due.UTC(), PayloadHash: r.hash,
	}
	switch {
	case r.key == "":
		return lease.Record{Status: lease.Unknown}
	case r.processed:
		rec.Status = lease.Processed
	case r.taken && !r.until.IsZero():
		rec.Status = lease.Busy
	case !r.until.IsZero():
		rec.Status = lease.Expired
	}
	return rec
}

// leaseID returns the id of a lease as statements take it. An id that is not valid text belongs to
// no lease, and neither does the empty one.
func leaseID(l lease.Lease) string {
	if !utf8.ValidString(l.ID) || strings.ContainsRune(l.ID, 0) {
		return ""
	}
	return l.ID
}
