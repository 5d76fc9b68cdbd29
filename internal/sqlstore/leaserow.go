package sqlstore

import (
	"strings"
	"unicode/utf8"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// leaseRow is a row of the lease contract.
type leaseRow struct {
	key, id, owner     string
	token              int64
	attempts           int
	processed, held    bool
	remaining          float64
	first, last, until sqldb.Time
}

func scanLease(r sqldb.Rows) (v leaseRow, err error) {
	err = r.Scan(&v.key, &v.id, &v.owner, &v.token, &v.attempts, &v.processed, &v.held, &v.remaining, &v.first, &v.last, &v.until)
	return v, err
}

// begun is the answer to a request with the given id. The row has that id if the request has
// acquired it, now or before.
func (r leaseRow) begun(id string, maxAttempts int) inbox.LeaseAnswer {
	switch {
	case r.processed:
		return inbox.LeaseAnswer{Status: inbox.LeaseProcessed, Attempts: r.attempts}
	case !r.held && maxAttempts > 0 && r.attempts >= maxAttempts:
		return inbox.LeaseAnswer{Status: inbox.LeaseExhausted, Attempts: r.attempts}
	case r.id == id:
		return r.lasting(inbox.LeaseAcquired)
	}
	return r.lasting(inbox.LeaseBusy)
}

// lasting tells the holder of a lease, or others, how long it lasts.
func (r leaseRow) lasting(status inbox.LeaseStatus) inbox.LeaseAnswer {
	a := inbox.LeaseAnswer{Status: status, Attempts: r.attempts, ExpiresAt: r.until.UTC(), Remaining: fromMillis(r.remaining)}
	if status == inbox.LeaseAcquired {
		a.LeaseID, a.Token = r.id, r.token
	}
	return a
}

// settled is what has become of the lease with the given id; [inbox.LeaseAcquired] if it is
// neither released nor processed. The row of an unknown key is empty.
func (r leaseRow) settled(id string) inbox.LeaseStatus {
	switch {
	case r.key == "":
		return inbox.LeaseUnknown
	case r.id != id:
		return inbox.LeaseLost
	case r.processed:
		return inbox.LeaseProcessed
	case r.until.IsZero():
		return inbox.LeaseReleased
	}
	return inbox.LeaseAcquired
}

func (r leaseRow) record() inbox.LeaseRecord {
	rec := inbox.LeaseRecord{
		Status: inbox.LeaseReleased, Owner: r.owner, Token: r.token, Attempts: r.attempts,
		FirstSeen: r.first.UTC(), LastSeen: r.last.UTC(), LeaseUntil: r.until.UTC(),
	}
	switch {
	case r.key == "":
		return inbox.LeaseRecord{Status: inbox.LeaseUnknown}
	case r.processed:
		rec.Status = inbox.LeaseProcessed
	case r.held:
		rec.Status = inbox.LeaseBusy
	}
	return rec
}

// leaseID returns the id of a lease as statements take it. An id that is no text is nobody's,
// and neither is the empty one.
func leaseID(l inbox.Lease) string {
	if !utf8.ValidString(l.ID) || strings.ContainsRune(l.ID, 0) {
		return ""
	}
	return l.ID
}
