package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/waybill-go/waybill/inbox"
)

func leaseModelTests() []leaseTest {
	return []leaseTest{{"random calls, held against a model", leaseModelled, nil}}
}

const (
	modelCalls = 250

	// modelSlack is how far from the end of a lease or of the retention the model's clock
	// keeps: the store's clock goes on by itself between two readings.
	modelSlack = 5 * time.Second
)

// leaseModel is the state machine of the contract, in a few lines and one goroutine.
type leaseModel struct {
	*leaseEnv
	rng     *rand.Rand
	began   time.Time
	moved   time.Duration // by advance
	keys    map[string]*modelKey
	granted []inbox.Lease // every lease there has been
}

// modelKey is what a store should know of a key.
type modelKey struct {
	id                string
	token             int64
	attempts          int
	last, until, due  time.Duration // of the model's clock
	leased, processed bool          // leased also after the lease has ended
	hash              string
}

func leaseModelled(e *leaseEnv) {
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	m := &leaseModel{leaseEnv: e, rng: rand.New(rand.NewPCG(seed, 0)), began: time.Now(), keys: make(map[string]*modelKey)}
	calls := []func(){m.callBegin, m.callBegin, m.callBegin, m.callMark, m.callRelease, m.callRenew, m.callRead, m.callAdvance, m.callPurge, m.callBatch}
	for range modelCalls {
		calls[m.rng.IntN(len(calls))]()
	}
}

func (m *leaseModel) now() time.Duration { return time.Since(m.began) + m.moved }

func (m *leaseModel) anyKey() string { return fmt.Sprintf("key %d", m.rng.IntN(4)) }

func (m *leaseModel) anyRequest() inbox.LeaseRequest {
	req := inbox.LeaseRequest{
		Key: m.anyKey(), TTL: []time.Duration{leaseTTL / 2, leaseTTL, 2 * leaseTTL}[m.rng.IntN(3)], MaxAttempts: m.rng.IntN(5),
		PayloadHash: []string{"", "a", "b"}[m.rng.IntN(3)],
	}
	switch m.rng.IntN(3) {
	case 0: // one that has, or had, a lease comes again
		l := m.anyLease()
		req.Key, req.RequestID = l.Key, l.ID
	case 1:
		req.RequestID = inbox.NewLeaseID()
	}
	return req
}

// anyLease returns one of the latest leases, so that it is often one that still holds.
func (m *leaseModel) anyLease() inbox.Lease {
	if len(m.granted) == 0 {
		return inbox.Lease{Key: m.anyKey(), ID: inbox.NewLeaseID()}
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

// begin does what TryBegin should, but for the id, which may be the store's to draw.
func (m *leaseModel) begin(req inbox.LeaseRequest, id string) (inbox.LeaseStatus, int) {
	k := m.keys[req.Key]
	if k == nil {
		k = &modelKey{}
	}
	switch {
	case k.processed:
		return inbox.LeaseProcessed, k.attempts
	case k.leased && k.until > m.now() && k.id == req.RequestID:
		return inbox.LeaseAcquired, k.attempts
	case k.takenAt(m.now()):
		return inbox.LeaseBusy, k.attempts
	case req.MaxAttempts > 0 && k.attempts >= req.MaxAttempts:
		return inbox.LeaseExhausted, k.attempts
	}
	m.keys[req.Key] = &modelKey{id: id, token: k.token + 1, attempts: k.attempts + 1, last: m.now(), until: m.now() + req.TTL, leased: true, hash: req.PayloadHash}
	m.granted = slices.DeleteFunc(m.granted, func(l inbox.Lease) bool { return l.ID == id }) // an earlier one of the request
	m.granted = append(m.granted, inbox.Lease{Key: req.Key, ID: id, Token: k.token + 1})
	return inbox.LeaseAcquired, k.attempts + 1
}

// takenAt reports whether nobody may begin a key: somebody has it, or it waits.
func (k *modelKey) takenAt(now time.Duration) bool {
	return k.leased && k.until > now || k.due > now
}

// holder returns the key that a lease may settle, or what is said of one that may not.
func (m *leaseModel) holder(l inbox.Lease) (*modelKey, inbox.LeaseStatus) {
	k := m.keys[l.Key]
	switch {
	case k == nil:
		return nil, inbox.LeaseUnknown
	case k.id != l.ID:
		return nil, inbox.LeaseLost
	case k.processed:
		return nil, inbox.LeaseProcessed
	case !k.leased:
		return nil, inbox.LeaseReleased
	}
	return k, ""
}

func (m *leaseModel) mark(l inbox.Lease) inbox.LeaseStatus {
	k, status := m.holder(l)
	if k == nil {
		return status
	}
	k.processed, k.leased, k.last = true, false, m.now()
	return inbox.LeaseProcessed
}

func (m *leaseModel) callBegin() {
	req := m.anyRequest()
	m.expectBegun(req, m.try(req))
}

func (m *leaseModel) expectBegun(req inbox.LeaseRequest, a inbox.LeaseAnswer) {
	m.Helper()
	m.checkAnswer(a)
	status, attempts := m.begin(req, a.LeaseID)
	m.expect("TryBegin of "+req.Key, fmt.Sprint(a.Status, a.Attempts), fmt.Sprint(status, attempts))
	k := m.keys[req.Key]
	m.expect("conflict of "+req.Key, a.Conflict, status == inbox.LeaseProcessed && req.PayloadHash != "" && k.hash != "" && k.hash != req.PayloadHash)
	if status == inbox.LeaseAcquired {
		m.expect("token of "+req.Key, a.Token, k.token)
	}
}

func (m *leaseModel) callMark() {
	l := m.anyLease()
	m.expect(fmt.Sprintf("MarkProcessed of %+v", l), m.tryMark(l), m.mark(l))
}

func (m *leaseModel) callRelease() {
	l := m.anyLease()
	r := inbox.Release{Uncounted: m.rng.IntN(2) == 0, Wait: []time.Duration{0, 0, leaseTTL / 2, 2 * leaseTTL}[m.rng.IntN(4)]}
	got := m.tryRelease(l, r)
	k, want := m.holder(l)
	if k != nil {
		want = inbox.LeaseReleased
		k.leased, k.last = false, m.now()
		if r.Wait > 0 {
			k.due = m.now() + r.Wait
		}
		if r.Uncounted {
			k.attempts--
		}
	}
	m.expect(fmt.Sprintf("ReleaseLease of %+v, %+v", l, r), got, want)
}

func (m *leaseModel) callRenew() {
	l := m.anyLease()
	k, want := m.holder(l)
	if k != nil {
		want = inbox.LeaseAcquired
		k.last, k.until = m.now(), m.now()+leaseTTL
	}
	m.renew(l, want)
}

func (m *leaseModel) callRead() {
	key := m.anyKey()
	k := m.keys[key]
	switch {
	case k == nil:
		m.wantRecord(key, inbox.LeaseUnknown, 0, 0)
	case k.processed:
		m.wantRecord(key, inbox.LeaseProcessed, k.token, k.attempts)
	case k.leased && k.until > m.now():
		m.wantRecord(key, inbox.LeaseBusy, k.token, k.attempts)
	case k.leased:
		m.wantRecord(key, inbox.LeaseExpired, k.token, k.attempts)
	default:
		m.wantRecord(key, inbox.LeaseReleased, k.token, k.attempts)
	}
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
		if k.last+LeaseRetention < m.now() && !k.takenAt(m.now()) {
			delete(m.keys, key)
			n++
		}
	}
	return n
}

func (m *leaseModel) callPurge() { m.purge(m.expired()) }

func (m *leaseModel) callBatch() {
	if m.rng.IntN(2) == 0 {
		var leases []inbox.Lease
		for _, l := range []inbox.Lease{m.anyLease(), m.anyLease(), m.anyLease()} {
			if len(leases) == 0 || leases[len(leases)-1].Key < l.Key {
				leases = append(leases, l)
			}
		}
		for i, status := range m.tryMarkAll(leases) {
			m.expect(fmt.Sprintf("MarkAllProcessed of %+v", leases[i]), status, m.mark(leases[i]))
		}
		return
	}
	var reqs []inbox.LeaseRequest
	for _, r := range []inbox.LeaseRequest{m.anyRequest(), m.anyRequest(), m.anyRequest()} {
		if len(reqs) == 0 || reqs[len(reqs)-1].Key < r.Key {
			reqs = append(reqs, r)
		}
	}
	for i, a := range m.tryAll(reqs) {
		m.expectBegun(reqs[i], a)
	}
}
