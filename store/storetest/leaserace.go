package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
)

func leaseRaceTests() []leaseTest {
	return []leaseTest{
		{"200 callers at once for a new key", leaseRaceNew, nil},                  // AS-42
		{"50 callers at once for a lease that has run out", leaseRaceRunOut, nil}, // AS-42
		{"50 callers at once for a released key", leaseRaceReleased, nil},         // AS-42
		{"50 callers at once for the last attempt", leaseRaceLast, nil},           // AS-42
		{"one holder at a time, and tokens that rise", leaseOneHolder, nil},
		{"marked while others take it over", leaseMarkRace, nil},
		{"overlapping batches in different orders", leaseBatchRace, []func(LeaseFeatures) bool{severalWriters}},
	}
}

// together runs fn n times at once and waits for all.
func together(n int, fn func(i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}

// race makes callers request the key k at once: one of them gets the key, the others get Busy.
func (e *leaseEnv) race(callers int, req func() lease.Request, attempt int) {
	e.Helper()
	answers := make([]lease.Answer, callers)
	together(callers, func(i int) { answers[i] = e.try(lasting(req())) })
	acquired := 0
	for _, a := range answers {
		switch {
		case a.Status == lease.Acquired && a.Attempts == attempt && a.Token == int64(attempt):
			acquired++
		case a.Status != lease.Busy || a.Attempts != attempt:
			e.Fatalf("TryBegin() = %+v, want Acquired or Busy, attempt %d", a, attempt)
		}
	}
	if acquired != 1 {
		e.Fatalf("%d of %d callers have acquired the key, want 1", acquired, callers)
	}
	e.wantRecord("k", lease.Busy, int64(attempt), attempt)
}

// lasting requests a lease that does not run out while many callers take turns on a busy machine. A layer in
// between may shorten it.
func lasting(req lease.Request) lease.Request {
	req.TTL = time.Hour
	return req
}

// oneKey is the request of the callers.
func oneKey() lease.Request { return request("k") }

func leaseRaceNew(e *leaseEnv) { e.race(200, oneKey, 1) }

func leaseRaceRunOut(e *leaseEnv) {
	old := e.begin("k", 1)
	e.runOut()
	e.race(50, oneKey, 2)
	e.mark(old, lease.Lost)
}

func leaseRaceReleased(e *leaseEnv) {
	e.release(e.begin("k", 1), false, lease.Released)
	e.race(50, oneKey, 2)
}

// leaseRaceLast: callers that come too late get Busy, because the key is leased, and not Exhausted.
func leaseRaceLast(e *leaseEnv) {
	e.release(e.begin("k", 1), false, lease.Released)
	e.race(50, func() lease.Request { return limited("k", 2) }, 2)
}

func leaseOneHolder(e *leaseEnv) {
	const workers, rounds = 8, 12
	var holders atomic.Int32
	var mu sync.Mutex
	var tokens []int64
	together(workers, func(w int) {
		for range rounds {
			a := e.try(lasting(request("k")))
			if a.Status != lease.Acquired {
				continue
			}
			if n := holders.Add(1); n != 1 {
				e.Errorf("%d holders at once", n)
			}
			mu.Lock()
			tokens = append(tokens, a.Token)
			mu.Unlock()
			holders.Add(-1)
			l := lease.Lease{Key: "k", ID: a.LeaseID, Token: a.Token}
			if status := e.tryRelease(l, lease.Release{Uncounted: w%2 == 0}); status != lease.Released {
				e.Errorf("ReleaseLease() = %s by the holder, want Released", status)
			}
		}
	})
	if !slices.IsSorted(tokens) || len(slices.Compact(slices.Clone(tokens))) != len(tokens) || len(tokens) == 0 {
		e.Fatalf("tokens = %v, want each higher than the one before", tokens)
	}
	if rec := e.read("k"); rec.Token != tokens[len(tokens)-1] || int64(len(tokens)) != rec.Token {
		e.Errorf("record = %+v after %d leases, want as many tokens", rec, len(tokens))
	}
}

// leaseMarkRace: either the late mark comes first and the key is not taken over, or its lease is lost.
func leaseMarkRace(e *leaseEnv) {
	const keys = 10
	leases := make([]lease.Lease, keys)
	for i := range leases {
		leases[i] = e.begin(fmt.Sprintf("k%d", i), 1)
	}
	e.runOut()
	for _, l := range leases {
		var marked lease.Status
		answers := make([]lease.Answer, 5)
		together(len(answers)+1, func(i int) {
			if i == len(answers) {
				marked = e.tryMark(l)
			} else {
				answers[i] = e.try(request(l.Key))
			}
		})
		acquired := 0
		for _, a := range answers {
			if a.Status == lease.Acquired {
				acquired++
			}
		}
		rec := e.read(l.Key)
		won := marked == lease.Processed && acquired == 0 && rec.Status == lease.Processed && rec.Token == 1
		lost := marked == lease.Lost && acquired == 1 && rec.Status == lease.Busy && rec.Token == 2
		if !won && !lost {
			e.Fatalf("marked: %s, acquired by %d others, record %+v", marked, acquired, rec)
		}
	}
}

// leaseBatchRace: batches do not deadlock.
func leaseBatchRace(e *leaseEnv) {
	const workers, rounds, size = 6, 3, 60
	for round := range rounds {
		keys := make([]string, size)
		for i := range keys {
			keys[i] = fmt.Sprintf("round %d key %d", round, i)
		}
		acquired := make([][]lease.Lease, workers)
		together(workers, func(w int) {
			mine := slices.Clone(keys)
			rand.Shuffle(size, func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			for i, a := range e.tryAll(requests(mine...)) {
				if a.Status == lease.Acquired {
					acquired[w] = append(acquired[w], lease.Lease{Key: mine[i], ID: a.LeaseID, Token: a.Token})
				}
			}
		})
		all := slices.Concat(acquired...)
		if len(all) != size {
			e.Fatalf("%d keys acquired by %d workers, want each of the %d once", len(all), workers, size)
		}
		together(workers, func(int) {
			mine := slices.Clone(all)
			rand.Shuffle(size, func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			if n := len(slices.Compact(e.tryMarkAll(mine))); n != 1 {
				e.Errorf("MarkAllProcessed() = %d kinds of answers, want Processed for each", n)
			}
		})
	}
}
