package storetest

import "github.com/waybill-go/waybill/inbox/lease"

func leaseAttemptTests() []leaseTest {
	return []leaseTest{
		{"an attempt that does not count", leaseUncounted, nil},
		{"begun as often as allowed", leaseExhausted, nil}, // AS-43
		{"what does not count does not exhaust", leaseUncountedAgain, nil},
	}
}

func limited(key string, attempts int) lease.Request {
	req := request(key)
	req.MaxAttempts = attempts
	return req
}

func leaseUncounted(e *leaseEnv) {
	l := e.begin("k", 1)
	e.release(l, true, lease.Released)
	e.wantRecord("k", lease.Released, 1, 0)
	next := e.begin("k", 1)
	if next.Token != 2 {
		e.Errorf("token = %d, want 2: it never goes back", next.Token)
	}
	e.release(next, false, lease.Released)
	e.release(e.begin("k", 2), true, lease.Released)
	e.wantRecord("k", lease.Released, 3, 1)
}

func leaseExhausted(e *leaseEnv) {
	for attempt := 1; attempt <= 2; attempt++ {
		a := e.wantBegin(limited("k", 2), lease.Acquired, attempt)
		e.wantBegin(limited("k", 1), lease.Busy, attempt) // it is leased
		if attempt == 1 {
			e.release(lease.Lease{Key: "k", ID: a.LeaseID}, false, lease.Released)
		}
	}
	e.runOut()
	e.wantUnchanged("k", func() {
		e.wantBegin(limited("k", 2), lease.Exhausted, 2)
		e.wantBegin(limited("k", 1), lease.Exhausted, 2)
	})
	a := e.wantBegin(limited("k", 3), lease.Acquired, 3) // a higher limit gets it
	e.mark(lease.Lease{Key: "k", ID: a.LeaseID}, lease.Processed)
	e.wantBegin(limited("k", 2), lease.Processed, 3)
}

func leaseUncountedAgain(e *leaseEnv) {
	for token := int64(1); token <= 4; token++ {
		a := e.wantBegin(limited("k", 1), lease.Acquired, 1)
		if a.Token != token {
			e.Fatalf("token = %d, want %d", a.Token, token)
		}
		e.release(lease.Lease{Key: "k", ID: a.LeaseID}, true, lease.Released)
	}
	a := e.wantBegin(limited("k", 1), lease.Acquired, 1)
	e.release(lease.Lease{Key: "k", ID: a.LeaseID}, false, lease.Released)
	e.wantBegin(limited("k", 1), lease.Exhausted, 1)
}
