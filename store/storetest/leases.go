package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
)

// LeaseRetention is how long the stores of the lease suite keep a key that is not leased.
const LeaseRetention = inbox.DefaultRetention

// LeaseHarness gives the lease suite access to one store.
type LeaseHarness struct {
	Features LeaseFeatures

	// Open returns a new, empty store, with the retention [LeaseRetention] if the retention is the
	// store's setting.
	Open func(t *testing.T) lease.BatchStore

	// Reopen returns a new store on the data of s, as after a restart of the program.
	// Required if Features.Persists is set.
	Reopen func(t *testing.T, s lease.BatchStore) lease.BatchStore

	// Advance moves the clock of s, by which leases run out and keys are past their
	// retention. Where the server's clock cannot be moved, the store adds an offset to it for
	// tests, and Advance brings forward what the server removes by itself.
	Advance func(t *testing.T, s lease.BatchStore, d time.Duration)
}

// LeaseFeatures declares what a lease store can do; tests of other features are left out.
type LeaseFeatures struct {
	// Persists says that a reopened store finds its earlier data.
	Persists bool

	// Expires says that keys past their retention are removed without PurgeLeases, which then
	// returns 0: by the server or another program.
	Expires bool

	// OneWriter says that there is only one writer anyway, so that batches cannot deadlock.
	OneWriter bool

	// MayConflict says that a call may fail as a conflict, without effect, and must be repeated:
	// the database resolves deadlocks, or does not wait for writers.
	MayConflict bool

	// ClampsTTL says that a layer in between keeps leases within its own limits, narrower than
	// those of the contract; 30 s to 2 min must be within them. The contract's limits are then not
	// tested.
	ClampsTTL bool
}

// RunLeases runs the suite of the lease contract as subtests of t, which run in parallel with
// each other.
func RunLeases(t *testing.T, h LeaseHarness) {
	for _, tc := range slices.Concat(leaseTests(), leaseAttemptTests(), leaseRequestTests(), leaseWaitTests(), leasePayloadTests(), leaseKeyTests(), leaseBatchTests(), leaseRaceTests(), leaseModelTests(), leaseHistoryTests()) {
		if !tc.runsWith(h.Features) {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.run(newLeaseEnv(t, h))
		})
	}
}

// leaseTest is one situation.
type leaseTest struct {
	name  string
	run   func(e *leaseEnv)
	needs []func(LeaseFeatures) bool
}

func leasesPersist(f LeaseFeatures) bool  { return f.Persists }
func purges(f LeaseFeatures) bool         { return !f.Expires }
func severalWriters(f LeaseFeatures) bool { return !f.OneWriter }
func anyTTL(f LeaseFeatures) bool         { return !f.ClampsTTL }

func (t leaseTest) runsWith(f LeaseFeatures) bool {
	return !slices.ContainsFunc(t.needs, func(need func(LeaseFeatures) bool) bool { return !need(f) })
}

// leaseTTL is how long leases of the suite last.
const leaseTTL = time.Minute

// leaseEnv is the store of one test, with the helpers that tests share.
type leaseEnv struct {
	*testing.T
	h   LeaseHarness
	s   lease.BatchStore
	ctx context.Context
}

func newLeaseEnv(t *testing.T, h LeaseHarness) *leaseEnv {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*testLimit)
	t.Cleanup(cancel)
	return &leaseEnv{T: t, h: h, s: h.Open(t), ctx: ctx}
}

func (e *leaseEnv) must(err error, what string) {
	e.Helper()
	if e.check(err, what); err != nil {
		e.FailNow()
	}
}

func (e *leaseEnv) advance(d time.Duration) { e.Helper(); e.h.Advance(e.T, e.s, d) }

// runOut advances the clock past the end of every lease of the usual length.
func (e *leaseEnv) runOut() { e.Helper(); e.advance(leaseTTL + time.Second) }

func request(key string) lease.Request {
	return lease.Request{Key: key, Owner: "test", TTL: leaseTTL}
}

// repeat calls fn again after a conflict, if the store may return one.
func (e *leaseEnv) repeat(fn func() error) error {
	if e.h.Features.MayConflict {
		return repeatConflicts(fn)
	}
	return fn()
}

// check reports an error; it may be called on any goroutine.
func (e *leaseEnv) check(err error, what string) {
	e.Helper()
	if err != nil {
		e.Errorf("%s: %v", what, err)
	}
}

// try requests a key. Like the other helpers whose names begin with try it may be called on any
// goroutine; after an error the answer is empty.
func (e *leaseEnv) try(req lease.Request) (answer lease.Answer) {
	e.Helper()
	e.check(e.repeat(func() (err error) {
		answer, err = e.s.TryBegin(e.ctx, req)
		return err
	}), "TryBegin")
	return answer
}

// wantBegin requests a key and expects an answer.
func (e *leaseEnv) wantBegin(req lease.Request, want lease.Status, attempts int) lease.Answer {
	e.Helper()
	a := e.try(req)
	if a.Status != want || a.Attempts != attempts {
		e.Fatalf("TryBegin(%.60q) = %+v, want %s and %d attempts", req.Key, a, want, attempts)
	}
	e.checkAnswer(a)
	return a
}

// checkAnswer checks that the fields go with the status.
func (e *leaseEnv) checkAnswer(a lease.Answer) {
	e.Helper()
	acquired, lasts := a.Status == lease.Acquired, a.Status == lease.Acquired || a.Status == lease.Busy
	if (a.LeaseID != "") != acquired || (a.Token != 0) != acquired || (a.Remaining != 0) != lasts || !a.ExpiresAt.IsZero() != lasts {
		e.Fatalf("answer = %+v: an id and a token are Acquired's only, times also Busy's", a)
	}
	if a.Conflict && a.Status != lease.Processed {
		e.Fatalf("answer = %+v: only what is processed is in conflict", a)
	}
	if lasts && a.Remaining < 0 {
		e.Fatalf("answer = %+v: a lease that lasts has no time left", a)
	}
}

// begin acquires a key for the given attempt and returns the lease.
func (e *leaseEnv) begin(key string, attempt int) lease.Lease {
	e.Helper()
	a := e.wantBegin(request(key), lease.Acquired, attempt)
	return lease.Lease{Key: key, ID: a.LeaseID, Token: a.Token}
}

// renew renews a lease for the usual time.
func (e *leaseEnv) renew(l lease.Lease, want lease.Status) (answer lease.Answer) {
	e.Helper()
	e.must(e.repeat(func() (err error) {
		answer, err = e.s.RenewLease(e.ctx, l, leaseTTL)
		return err
	}), "RenewLease")
	if answer.Status != want {
		e.Fatalf("RenewLease(%+v) = %+v, want %s", l, answer, want)
	}
	e.checkAnswer(answer)
	if want == lease.Acquired && (answer.LeaseID != l.ID || answer.Token != l.Token) {
		e.Fatalf("RenewLease(%+v) = %+v, want the same id and token", l, answer)
	}
	return answer
}

func (e *leaseEnv) mark(l lease.Lease, want lease.Status) {
	e.Helper()
	if got := e.tryMark(l); got != want {
		e.Fatalf("MarkProcessed(%+v) = %s, want %s", l, got, want)
	}
}

func (e *leaseEnv) tryMark(l lease.Lease) (status lease.Status) {
	e.Helper()
	e.check(e.repeat(func() (err error) {
		status, err = e.s.MarkProcessed(e.ctx, l)
		return err
	}), "MarkProcessed")
	return status
}

// release releases a key so that others may begin it at once.
func (e *leaseEnv) release(l lease.Lease, uncounted bool, want lease.Status) {
	e.Helper()
	e.giveBack(l, lease.Release{Uncounted: uncounted}, want)
}

func (e *leaseEnv) giveBack(l lease.Lease, r lease.Release, want lease.Status) {
	e.Helper()
	if got := e.tryRelease(l, r); got != want {
		e.Fatalf("ReleaseLease(%+v, %+v) = %s, want %s", l, r, got, want)
	}
}

func (e *leaseEnv) tryRelease(l lease.Lease, r lease.Release) (status lease.Status) {
	e.Helper()
	e.check(e.repeat(func() (err error) {
		status, err = e.s.ReleaseLease(e.ctx, l, r)
		return err
	}), "ReleaseLease")
	return status
}

func (e *leaseEnv) read(key string) lease.Record {
	e.Helper()
	rec, err := e.s.ReadLease(e.ctx, key)
	e.must(err, "ReadLease")
	if rec.Status == lease.Unknown && rec != (lease.Record{Status: lease.Unknown}) {
		e.Fatalf("ReadLease(%.60q) = %+v, want nothing but the status", key, rec)
	}
	if rec.FirstSeen.After(rec.LastSeen) {
		e.Fatalf("ReadLease(%.60q) = %+v, first seen after it was last seen", key, rec)
	}
	return rec
}

// wantRecord reads a key and expects what is known of it.
func (e *leaseEnv) wantRecord(key string, want lease.Status, token int64, attempts int) lease.Record {
	e.Helper()
	rec := e.read(key)
	if rec.Status != want || rec.Token != token || rec.Attempts != attempts {
		e.Fatalf("ReadLease(%.60q) = %+v, want %s, token %d, %d attempts", key, rec, want, token, attempts)
	}
	return rec
}

// wantUnchanged runs fn and expects the record of a key to stay as it is.
func (e *leaseEnv) wantUnchanged(key string, fn func()) {
	e.Helper()
	before := e.read(key)
	fn()
	if after := e.read(key); after != before {
		e.Fatalf("record of %.60q = %+v, want it as it was, %+v", key, after, before)
	}
}

// purge removes what is past the retention, and expects want keys; none if they expire by
// themselves.
func (e *leaseEnv) purge(want int) {
	e.Helper()
	if e.h.Features.Expires {
		want = 0
	}
	var n int
	e.must(e.repeat(func() (err error) {
		n, err = e.s.PurgeLeases(e.ctx, LeaseRetention, 1000)
		return err
	}), "PurgeLeases")
	if n != want {
		e.Fatalf("PurgeLeases() = %d, want %d", n, want)
	}
}

// wantInvalidField expects an error that names what is wrong.
func (e *leaseEnv) wantInvalidField(err error, field, what string) {
	e.Helper()
	var invalid *waybill.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != field {
		e.Errorf("%s: error = %v, want an InvalidError of %s", what, err, field)
	}
}

// wantInvalid expects an error that says what is wrong with the request.
func (e *leaseEnv) wantInvalid(err error, what string) {
	e.Helper()
	var invalid *waybill.InvalidError
	if !errors.As(err, &invalid) {
		e.Errorf("%s: error = %v, want an InvalidError", what, err)
	}
}
