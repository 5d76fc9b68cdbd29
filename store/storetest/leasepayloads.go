package storetest

import (
	"strings"

	"github.com/waybill-go/waybill/inbox/lease"
)

func leasePayloadTests() []leaseTest {
	return []leaseTest{
		{"processed with another payload", leaseConflict, nil},
		{"processed with a payload that nobody has named", leaseNoPayload, nil},
		{"begun again with another payload", leasePayloadReplaced, nil},
		{"a request that comes again with another payload", leasePayloadRepeated, nil},
		{"payloads in a batch", leaseConflictBatch, nil},
		{"payload hashes that are refused", leasePayloadInvalid, nil},
		{"a payload is found after a restart", leasePayloadPersists, []func(LeaseFeatures) bool{leasesPersist}},
	}
}

// Two payloads, and the longest hash.
var (
	hashA, hashB = "sha256:aaaa", "sha256:bbbb"
	longHash     = strings.Repeat("~", lease.MaxPayloadHash)
)

func payload(key, hash string) lease.Request {
	req := request(key)
	req.PayloadHash = hash
	return req
}

// process acquires and marks the key of a request.
func (e *leaseEnv) process(req lease.Request, attempt int) {
	e.Helper()
	a := e.wantBegin(req, lease.Acquired, attempt)
	e.mark(lease.Lease{Key: req.Key, ID: a.LeaseID, Token: a.Token}, lease.Processed)
}

// wantConflict asks for a key that is processed, alone and in a batch.
func (e *leaseEnv) wantConflict(req lease.Request, want bool) {
	e.Helper()
	e.wantUnchanged(req.Key, func() {
		for _, a := range []lease.Answer{e.try(req), e.tryAll([]lease.Request{req})[0]} {
			if e.checkAnswer(a); a.Status != lease.Processed || a.Conflict != want {
				e.Errorf("TryBegin(%+v) = %+v, want it processed, conflict %v", req, a, want)
			}
		}
	})
}

func (e *leaseEnv) wantHash(key, want string) {
	e.Helper()
	if rec := e.read(key); rec.PayloadHash != want {
		e.Errorf("ReadLease(%q) = %+v, want the payload %q", key, rec, want)
	}
}

func leaseConflict(e *leaseEnv) {
	e.process(payload("k", hashA), 1)
	e.wantHash("k", hashA)
	e.wantConflict(payload("k", hashA), false)
	e.wantConflict(payload("k", hashB), true)
	e.wantConflict(payload("k", strings.ToUpper(hashA)), true)
	e.wantConflict(payload("k", longHash), true)
	e.wantConflict(request("k"), false) // asks without one
	e.process(payload("long", longHash), 1)
	e.wantConflict(payload("long", longHash), false)
	e.wantConflict(payload("long", longHash[1:]), true)
}

func leaseNoPayload(e *leaseEnv) {
	e.process(request("k"), 1)
	e.wantHash("k", "")
	e.wantConflict(payload("k", hashA), false)
	e.wantConflict(request("k"), false)
}

// leasePayloadReplaced: the one that was processed is that of the latest attempt.
func leasePayloadReplaced(e *leaseEnv) {
	for i, hash := range []string{hashA, "", hashB} {
		a := e.wantBegin(payload("k", hash), lease.Acquired, i+1)
		e.wantHash("k", hash)
		busy := e.wantBegin(payload("k", longHash), lease.Busy, i+1) // whose payload is not compared yet
		if busy.Conflict {
			e.Errorf("TryBegin() = %+v, want no conflict with what is not processed", busy)
		}
		e.release(lease.Lease{Key: "k", ID: a.LeaseID}, false, lease.Released)
		e.wantHash("k", hash)
	}
	e.process(payload("k", hashA), 4)
	e.wantConflict(payload("k", hashB), true)
	e.wantConflict(payload("k", hashA), false)

	e.wantBegin(payload("run out", hashA), lease.Acquired, 1)
	e.runOut()
	e.process(payload("run out", hashB), 2)
	e.wantConflict(payload("run out", hashA), true)
}

func leasePayloadRepeated(e *leaseEnv) {
	req := repeatable("k")
	req.PayloadHash = hashA
	l := e.beginRequest(req, 1)
	again := req
	again.PayloadHash = hashB
	e.wantSame(again, l, 1) // it is the id that counts
	e.wantHash("k", hashA)
	e.mark(l, lease.Processed)
	e.wantConflict(req, false)
	e.wantConflict(again, true)
}

func leaseConflictBatch(e *leaseEnv) {
	e.process(payload("a", hashA), 1)
	e.process(payload("b", hashB), 1)
	e.process(request("c"), 1)
	answers := e.tryAll([]lease.Request{payload("d", hashB), payload("b", hashB), payload("a", hashB), payload("c", hashB), payload("e", hashA)})
	for i, want := range []bool{false, false, true, false, false} {
		if e.checkAnswer(answers[i]); answers[i].Conflict != want {
			e.Errorf("answer %d = %+v, want conflict %v", i, answers[i], want)
		}
	}
	var leases []lease.Lease
	for i, key := range map[int]string{0: "d", 4: "e"} {
		leases = append(leases, lease.Lease{Key: key, ID: answers[i].LeaseID})
	}
	e.tryMarkAll(leases)
	e.wantConflict(payload("d", hashA), true)
	e.wantConflict(payload("e", hashA), false)
}

func leasePayloadInvalid(e *leaseEnv) {
	for name, hash := range map[string]string{"long": longHash + "~", "a blank": "a b", "a NUL": "a\x00", "not ASCII": "é"} {
		_, err := e.s.TryBegin(e.ctx, payload("k", hash))
		e.wantInvalidField(err, "lease.Request.PayloadHash", "TryBegin, "+name)
		_, err = e.s.TryBeginAll(e.ctx, []lease.Request{request("other"), payload("k", hash)})
		e.wantInvalidField(err, "lease.Request.PayloadHash", "TryBeginAll, "+name)
	}
	e.wantRecord("k", lease.Unknown, 0, 0)
	e.wantRecord("other", lease.Unknown, 0, 0)
}

func leasePayloadPersists(e *leaseEnv) {
	e.process(payload("k", hashA), 1)
	e.s = e.h.Reopen(e.T, e.s)
	e.wantConflict(payload("k", hashB), true)
	e.wantConflict(payload("k", hashA), false)
}
