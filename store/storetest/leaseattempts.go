package storetest

import "github.com/waybill-go/waybill/inbox"

func leaseAttemptTests() []leaseTest {
	return []leaseTest{
		{"an attempt that does not count", leaseUncounted, nil},
		{"begun as often as allowed", leaseExhausted, nil}, // AS-43
		{"what does not count does not exhaust", leaseUncountedAgain, nil},
	}
}

func limited(key string, attempts int) inbox.LeaseRequest {
	req := request(key)
	req.MaxAttempts = attempts
	return req
}

func leaseUncounted(e *leaseEnv) {
	l := e.begin("k", 1)
	e.release(l, true, inbox.LeaseReleased)
	e.wantRecord("k", inbox.LeaseReleased, 1, 0)
	next := e.begin("k", 1)
	if next.Token != 2 {
		e.Errorf("token = %d, want 2: it never goes back", next.Token)
	}
	e.release(next, false, inbox.LeaseReleased)
	e.release(e.begin("k", 2), true, inbox.LeaseReleased)
	e.wantRecord("k", inbox.LeaseReleased, 3, 1)
}

func leaseExhausted(e *leaseEnv) {
	for attempt := 1; attempt <= 2; attempt++ {
		a := e.wantBegin(limited("k", 2), inbox.LeaseAcquired, attempt)
		e.wantBegin(limited("k", 1), inbox.LeaseBusy, attempt) // somebody has it
		if attempt == 1 {
			e.release(inbox.Lease{Key: "k", ID: a.LeaseID}, false, inbox.LeaseReleased)
		}
	}
	e.runOut()
	e.wantUnchanged("k", func() {
		e.wantBegin(limited("k", 2), inbox.LeaseExhausted, 2)
		e.wantBegin(limited("k", 1), inbox.LeaseExhausted, 2)
	})
	a := e.wantBegin(limited("k", 3), inbox.LeaseAcquired, 3) // who allows more gets it
	e.mark(inbox.Lease{Key: "k", ID: a.LeaseID}, inbox.LeaseProcessed)
	e.wantBegin(limited("k", 2), inbox.LeaseProcessed, 3)
}

func leaseUncountedAgain(e *leaseEnv) {
	for token := int64(1); token <= 4; token++ {
		a := e.wantBegin(limited("k", 1), inbox.LeaseAcquired, 1)
		if a.Token != token {
			e.Fatalf("token = %d, want %d", a.Token, token)
		}
		e.release(inbox.Lease{Key: "k", ID: a.LeaseID}, true, inbox.LeaseReleased)
	}
	a := e.wantBegin(limited("k", 1), inbox.LeaseAcquired, 1)
	e.release(inbox.Lease{Key: "k", ID: a.LeaseID}, false, inbox.LeaseReleased)
	e.wantBegin(limited("k", 1), inbox.LeaseExhausted, 1)
}
