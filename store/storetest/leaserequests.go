package storetest

import (
	"strings"

	"github.com/waybill-go/waybill/inbox/lease"
)

func leaseRequestTests() []leaseTest {
	return []leaseTest{
		{"a request that comes again has its lease", leaseRepeated, nil},
		{"a request that comes again after its lease", leaseRepeatedLate, nil},
		{"a request that comes again when somebody else has the key", leaseRepeatedLost, nil},
		{"a request that comes again has no more attempts than others", leaseRepeatedExhausted, nil},
		{"a batch that comes again", leaseRepeatedBatch, nil},
		{"a request that was not answered is released by its id", leaseReleasedUnanswered, nil},
		{"200 copies of a request at once", leaseRaceRepeated, nil},
		{"200 requests at once", leaseRaceRequests, nil},
		{"50 copies of a request at once for a lease that has run out", leaseRaceRepeatedRunOut, nil},
	}
}

// repeatable is a request that may be sent more than once.
func repeatable(key string) lease.Request {
	req := request(key)
	req.RequestID = lease.NewID()
	return req
}

// beginRequest acquires the key of a request for the given attempt.
func (e *leaseEnv) beginRequest(req lease.Request, attempt int) lease.Lease {
	e.Helper()
	a := e.wantBegin(req, lease.Acquired, attempt)
	if a.LeaseID != req.RequestID {
		e.Fatalf("TryBegin(%+v) = %+v, want the id of the request", req, a)
	}
	return lease.Lease{Key: req.Key, ID: a.LeaseID, Token: a.Token}
}

// wantSame sends a request again and expects the lease that it has.
func (e *leaseEnv) wantSame(req lease.Request, l lease.Lease, attempt int) {
	e.Helper()
	e.wantUnchanged(req.Key, func() {
		if again := e.beginRequest(req, attempt); again != l {
			e.Fatalf("TryBegin() again = %+v, want %+v", again, l)
		}
	})
}

func leaseRepeated(e *leaseEnv) {
	req := repeatable("k")
	l := e.beginRequest(req, 1)
	e.advance(leaseTTL / 2)
	e.wantSame(req, l, 1)
	again := req
	again.TTL, again.Owner, again.MaxAttempts = 2*leaseTTL, "somebody else", 1
	e.wantSame(again, l, 1) // it is the id that counts
	if a := e.try(again); a.Remaining > leaseTTL/2 {
		e.Errorf("TryBegin() again = %+v, want what is left of the lease", a)
	}

	other, folded := req, req
	other.RequestID, folded.RequestID = lease.NewID(), strings.ToLower(req.RequestID)
	e.wantUnchanged("k", func() {
		e.wantBegin(other, lease.Busy, 1)
		e.wantBegin(folded, lease.Busy, 1)
		e.wantBegin(request("k"), lease.Busy, 1)
	})
	e.renew(l, lease.Acquired)
	e.wantSame(req, l, 1)
	e.mark(l, lease.Processed)
	e.wantUnchanged("k", func() { e.wantBegin(req, lease.Processed, 1) })
}

func leaseRepeatedLate(e *leaseEnv) {
	req := repeatable("k")
	e.release(e.beginRequest(req, 1), false, lease.Released)
	if l := e.beginRequest(req, 2); l.Token != 2 {
		e.Errorf("after a release: %+v, want the next token", l)
	}
	e.runOut()
	l := e.beginRequest(req, 3)
	if l.Token != 3 {
		e.Errorf("after the lease has run out: %+v, want the next token", l)
	}
	e.wantSame(req, l, 3)
	e.mark(l, lease.Processed)
}

func leaseRepeatedLost(e *leaseEnv) {
	req := repeatable("k")
	old := e.beginRequest(req, 1)
	e.runOut()
	l := e.beginRequest(repeatable("k"), 2)
	e.wantUnchanged("k", func() { e.wantBegin(req, lease.Busy, 2) })
	e.mark(old, lease.Lost)
	e.mark(l, lease.Processed)
}

func leaseRepeatedExhausted(e *leaseEnv) {
	req := repeatable("k")
	req.MaxAttempts = 2
	e.release(e.beginRequest(req, 1), false, lease.Released)
	l := e.beginRequest(req, 2)
	e.wantSame(req, l, 2)
	e.runOut()
	e.wantUnchanged("k", func() { e.wantBegin(req, lease.Exhausted, 2) })
	e.release(l, false, lease.Released)
	e.wantUnchanged("k", func() { e.wantBegin(req, lease.Exhausted, 2) })
}

func leaseRepeatedBatch(e *leaseEnv) {
	used := repeatable("used up")
	used.MaxAttempts = 1
	e.release(e.beginRequest(used, 1), false, lease.Released)
	reqs := []lease.Request{repeatable("b"), repeatable("c"), repeatable("a"), used}
	first := e.tryAll(reqs)
	e.begin("d", 1)
	reqs = append(reqs, repeatable("d"), repeatable("e"))
	again := e.tryAll(reqs)
	for i := range 3 {
		a, b := first[i], again[i]
		if a.Status != lease.Acquired || b.Status != a.Status || b.LeaseID != reqs[i].RequestID || b.LeaseID != a.LeaseID || b.Token != a.Token || b.Attempts != 1 {
			e.Errorf("TryBeginAll() again = %+v, want the lease of before, %+v", b, a)
		}
		e.checkAnswer(b)
	}
	if first[3].Status != lease.Exhausted || again[3].Status != lease.Exhausted || again[4].Status != lease.Busy || again[5].Status != lease.Acquired {
		e.Errorf("TryBeginAll() again = %+v, want exhausted, busy and acquired for the rest", again)
	}
}

// leaseReleasedUnanswered: a caller without an answer knows the id of the lease that it may have.
func leaseReleasedUnanswered(e *leaseEnv) {
	req := repeatable("k")
	l := lease.Lease{Key: "k", ID: req.RequestID}
	e.release(l, true, lease.Unknown)
	e.try(req)
	e.release(l, true, lease.Released)
	e.begin("k", 1)
}

// raceRepeated sends one request many times at once: all get one lease.
func (e *leaseEnv) raceRepeated(copies int, req lease.Request, attempt int) {
	e.Helper()
	answers := make([]lease.Answer, copies)
	together(copies, func(i int) { answers[i] = e.try(lasting(req)) })
	for _, a := range answers {
		if a.Status != lease.Acquired || a.LeaseID != req.RequestID || a.Token != int64(attempt) || a.Attempts != attempt {
			e.Fatalf("TryBegin() = %+v, want the one lease, attempt %d", a, attempt)
		}
	}
	e.wantRecord(req.Key, lease.Busy, int64(attempt), attempt)
}

func leaseRaceRepeated(e *leaseEnv) { e.raceRepeated(200, repeatable("k"), 1) }

func leaseRaceRepeatedRunOut(e *leaseEnv) {
	req := repeatable("k")
	e.beginRequest(req, 1)
	e.runOut()
	e.raceRepeated(50, req, 2)
}

func leaseRaceRequests(e *leaseEnv) {
	e.race(200, func() lease.Request { return repeatable("k") }, 1)
}
