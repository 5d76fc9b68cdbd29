package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
)

func leaseModelTests() []leaseTest {
	return []leaseTest{{"random calls, held against a model", leaseModelled, nil}}
}

const (
	modelCalls = 250

	// modelSlack is the distance that the model's clock keeps from the end of a lease or of the retention: the
	// store's clock advances by itself between two readings.
	modelSlack = 5 * time.Second
)

// leaseModel compares a store with a state machine for each key, in one goroutine.
type leaseModel struct {
	*leaseEnv
	rng     *rand.Rand
	began   time.Time
	moved   time.Duration // by advance
	keys    map[string]modelKey
	granted []lease.Lease // every lease granted so far
}

func leaseModelled(e *leaseEnv) {
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	m := &leaseModel{leaseEnv: e, rng: rand.New(rand.NewPCG(seed, 0)), began: time.Now(), keys: make(map[string]modelKey)}
	calls := []func(){m.callBegin, m.callBegin, m.callBegin, m.callMark, m.callRelease, m.callRenew, m.callRead, m.callAdvance, m.callPurge, m.callBatch}
	for range modelCalls {
		calls[m.rng.IntN(len(calls))]()
	}
}

func (m *leaseModel) now() time.Duration { return time.Since(m.began) + m.moved }

func (m *leaseModel) anyKey() string { return fmt.Sprintf("key %d", m.rng.IntN(4)) }

func (m *leaseModel) anyRequest() lease.Request {
	req := lease.Request{
		Key: m.anyKey(), TTL: []time.Duration{leaseTTL / 2, leaseTTL, 2 * leaseTTL}[m.rng.IntN(3)], MaxAttempts: m.rng.IntN(5),
		PayloadHash: []string{"", "a", "b"}[m.rng.IntN(3)],
	}
	switch m.rng.IntN(3) {
	case 0: // one that has, or had, a lease is repeated
		l := m.anyLease()
		req.Key, req.RequestID = l.Key, l.ID
	case 1:
		req.RequestID = lease.NewID()
	}
	return req
}

// anyLease returns one of the latest leases, so that it is often one that still holds.
func (m *leaseModel) anyLease() lease.Lease {
	if len(m.granted) == 0 {
		return lease.Lease{Key: m.anyKey(), ID: lease.NewID()}
	}
	recent := m.granted[max(0, len(m.granted)-8):]
	return recent[m.rng.IntN(len(recent))]
}

func (m *leaseModel) expect(call string, got, want any) {
	m.Helper()
	if got != want {
		m.Fatalf("at %v, %s = %v, want %v", m.now(), call, got, want)
	}
}

func (m *leaseModel) callBegin() {
	req := m.anyRequest()
	m.expectBegun(req, m.try(req))
}

func (m *leaseModel) expectBegun(req lease.Request, a lease.Answer) {
	m.Helper()
	m.checkAnswer(a)
	before := m.keys[req.Key]
	k, status := before.begin(req, a.LeaseID, m.now())
	m.expect("TryBegin of "+req.Key, fmt.Sprint(a.Status, a.Attempts), fmt.Sprint(status, k.attempts))
	m.expect("conflict of "+req.Key, a.Conflict, status == lease.Processed && req.Conflicts(k.hash))
	if status == lease.Acquired {
		m.expect("token of "+req.Key, a.Token, k.token)
	}
	if k.token > before.token {
		m.granted = slices.DeleteFunc(m.granted, func(l lease.Lease) bool { return l.ID == k.id }) // an earlier one of the request
		m.granted = append(m.granted, lease.Lease{Key: req.Key, ID: k.id, Token: k.token})
		m.keys[req.Key] = k
	}
}

// expectSettled expects the model's answer to a call that settles or renews a lease, and keeps the key's new
// state.
func (m *leaseModel) expectSettled(call string, l lease.Lease, got lease.Status, k modelKey, want lease.Status) {
	m.Helper()
	m.expect(fmt.Sprintf("%s of %+v", call, l), got, want)
	if want != lease.Unknown {
		m.keys[l.Key] = k
	}
}

func (m *leaseModel) expectMarked(call string, l lease.Lease, got lease.Status) {
	m.Helper()
	k, want := m.keys[l.Key].mark(l.ID, m.now())
	m.expectSettled(call, l, got, k, want)
}

func (m *leaseModel) callMark() {
	l := m.anyLease()
	m.expectMarked("MarkProcessed", l, m.tryMark(l))
}

func (m *leaseModel) callRelease() {
	l := m.anyLease()
	r := lease.Release{Uncounted: m.rng.IntN(2) == 0, Wait: []time.Duration{0, 0, leaseTTL / 2, 2 * leaseTTL}[m.rng.IntN(4)]}
	got := m.tryRelease(l, r)
	k, want := m.keys[l.Key].release(l.ID, r, m.now())
	m.expectSettled(fmt.Sprintf("ReleaseLease with %+v", r), l, got, k, want)
}

func (m *leaseModel) callRenew() {
	l := m.anyLease()
	k, want := m.keys[l.Key].renew(l.ID, leaseTTL, m.now())
	m.expectSettled("RenewLease", l, m.renew(l, want).Status, k, want)
}

func (m *leaseModel) callRead() {
	key := m.anyKey()
	k := m.keys[key]
	m.wantRecord(key, k.status(m.now()), k.token, k.attempts)
}

// callAdvance moves the clock a little, past leases, or now and then by days.
func (m *leaseModel) callAdvance() {
	steps := []time.Duration{time.Second, leaseTTL / 4, leaseTTL / 2, leaseTTL, 2 * leaseTTL, LeaseRetention / 2, LeaseRetention}
	d := steps[m.rng.IntN(len(steps))]
	for m.nearEdge(m.now() + d) {
		d += 2 * modelSlack
	}
	m.advance(d)
	m.moved += d
	if m.h.Features.Expires {
		m.expired()
	}
}

// nearEdge reports whether a lease or the retention of a key ends about then, or soon after.
func (m *leaseModel) nearEdge(then time.Duration) bool {
	for _, k := range m.keys {
		for _, edge := range []time.Duration{k.until, k.due, k.last + LeaseRetention, k.until + LeaseRetention, k.due + LeaseRetention} {
			if edge > then-modelSlack && edge < then+2*modelSlack {
				return true
			}
		}
	}
	return false
}

// expired forgets what is past the retention, and returns how many keys.
func (m *leaseModel) expired() (n int) {
	for key, k := range m.keys {
		if k.last+LeaseRetention < m.now() && !k.taken(m.now()) {
			delete(m.keys, key)
			n++
		}
	}
	return n
}

func (m *leaseModel) callPurge() { m.purge(m.expired()) }

func (m *leaseModel) callBatch() {
	if m.rng.IntN(2) == 0 {
		var leases []lease.Lease
		for _, l := range []lease.Lease{m.anyLease(), m.anyLease(), m.anyLease()} {
			if len(leases) == 0 || leases[len(leases)-1].Key < l.Key {
				leases = append(leases, l)
			}
		}
		for i, status := range m.tryMarkAll(leases) {
			m.expectMarked("MarkAllProcessed", leases[i], status)
		}
		return
	}
	var reqs []lease.Request
	for _, r := range []lease.Request{m.anyRequest(), m.anyRequest(), m.anyRequest()} {
		if len(reqs) == 0 || reqs[len(reqs)-1].Key < r.Key {
			reqs = append(reqs, r)
		}
	}
	for i, a := range m.tryAll(reqs) {
		m.expectBegun(reqs[i], a)
	}
}
