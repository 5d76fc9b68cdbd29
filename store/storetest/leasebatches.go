package storetest

import (
	"fmt"
	"slices"

	"github.com/waybill-go/waybill/inbox"
)

func leaseBatchTests() []leaseTest {
	return []leaseTest{
		{"a batch of nothing", leaseEmptyBatch, nil},
		{"batches answer in the order of the requests", leaseBatchOrder, nil},
		{"a batch in which each key has a limit of its own", leaseBatchLimits, nil},
		{"batches that are refused", leaseBatchRefused, nil},
		{"the largest batch", leaseLargestBatch, nil},
	}
}

func (e *leaseEnv) tryAll(reqs []inbox.LeaseRequest) (answers []inbox.LeaseAnswer) {
	e.Helper()
	e.check(e.repeat(func() (err error) {
		answers, err = e.s.TryBeginAll(e.ctx, reqs)
		return err
	}), "TryBeginAll")
	if len(answers) != len(reqs) {
		e.Errorf("%d answers for %d requests", len(answers), len(reqs))
		return make([]inbox.LeaseAnswer, len(reqs))
	}
	return answers
}

func (e *leaseEnv) tryMarkAll(leases []inbox.Lease) (statuses []inbox.LeaseStatus) {
	e.Helper()
	e.check(e.repeat(func() (err error) {
		statuses, err = e.s.MarkAllProcessed(e.ctx, leases)
		return err
	}), "MarkAllProcessed")
	if len(statuses) != len(leases) {
		e.Errorf("%d answers for %d leases", len(statuses), len(leases))
		return make([]inbox.LeaseStatus, len(leases))
	}
	return statuses
}

func requests(keys ...string) []inbox.LeaseRequest {
	reqs := make([]inbox.LeaseRequest, len(keys))
	for i, key := range keys {
		reqs[i] = request(key)
	}
	return reqs
}

func leaseEmptyBatch(e *leaseEnv) {
	e.tryAll(nil)
	e.tryMarkAll(nil)
}

func leaseBatchOrder(e *leaseEnv) {
	busy, lost, released := e.begin("f busy", 1), e.begin("c lost", 1), e.begin("e released", 1)
	processed := e.begin("b processed", 1)
	e.mark(processed, inbox.LeaseProcessed)
	e.release(released, false, inbox.LeaseReleased)

	answers := e.tryAll(requests("f busy", "z new", "b processed", "e released", "a new"))
	var got []inbox.LeaseStatus
	for _, a := range answers {
		e.checkAnswer(a)
		got = append(got, a.Status)
	}
	want := []inbox.LeaseStatus{inbox.LeaseBusy, inbox.LeaseAcquired, inbox.LeaseProcessed, inbox.LeaseAcquired, inbox.LeaseAcquired}
	if !slices.Equal(got, want) {
		e.Fatalf("TryBeginAll() = %v, want %v", got, want)
	}
	if answers[3].Attempts != 2 || answers[3].Token != 2 || answers[1].Token != 1 {
		e.Errorf("TryBeginAll() = %+v, want the second attempt at what was released", answers)
	}

	lease := func(i int, key string) inbox.Lease {
		return inbox.Lease{Key: key, ID: answers[i].LeaseID, Token: answers[i].Token}
	}
	e.release(lease(4, "a new"), false, inbox.LeaseReleased)
	lost.ID = inbox.NewLeaseID()
	statuses := e.tryMarkAll([]inbox.Lease{
		lost, lease(1, "z new"), processed, {Key: "d unknown", ID: inbox.NewLeaseID()}, lease(4, "a new"), busy, released,
	})
	wantStatuses := []inbox.LeaseStatus{
		inbox.LeaseLost, inbox.LeaseProcessed, inbox.LeaseProcessed, inbox.LeaseUnknown, inbox.LeaseReleased, inbox.LeaseProcessed, inbox.LeaseLost,
	}
	if !slices.Equal(statuses, wantStatuses) {
		e.Fatalf("MarkAllProcessed() = %v, want %v", statuses, wantStatuses)
	}
	e.wantRecord("c lost", inbox.LeaseBusy, 1, 1)
	e.wantRecord("d unknown", inbox.LeaseUnknown, 0, 0)
	e.wantRecord("z new", inbox.LeaseProcessed, 1, 1)
	e.wantRecord("a new", inbox.LeaseReleased, 1, 1)
	e.wantRecord("e released", inbox.LeaseBusy, 2, 2)
}

func leaseBatchLimits(e *leaseEnv) {
	for _, key := range []string{"one", "two", "any"} {
		e.release(e.begin(key, 1), false, inbox.LeaseReleased)
	}
	short := request("any")
	short.TTL, short.Owner = leaseTTL/2, "somebody else"
	answers := e.tryAll([]inbox.LeaseRequest{limited("two", 2), limited("one", 1), short})
	if answers[0].Status != inbox.LeaseAcquired || answers[1].Status != inbox.LeaseExhausted || answers[2].Status != inbox.LeaseAcquired {
		e.Fatalf("TryBeginAll() = %+v, want one exhausted", answers)
	}
	if answers[0].Remaining <= leaseTTL/2 || answers[2].Remaining > leaseTTL/2 {
		e.Errorf("TryBeginAll() = %+v, want a lease half as long for the last", answers)
	}
	if rec := e.read("any"); rec.Owner != "somebody else" {
		e.Errorf("record = %+v, want the owner who asked for this key", rec)
	}
	e.wantRecord("one", inbox.LeaseReleased, 1, 1)
}

func numbered(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	return keys
}

func leaseBatchRefused(e *leaseEnv) {
	_, err := e.s.TryBeginAll(e.ctx, requests("a", "b", "a"))
	e.wantInvalid(err, "TryBeginAll, a key twice")
	_, err = e.s.TryBeginAll(e.ctx, requests(numbered(inbox.MaxLeaseBatch+1)...))
	e.wantInvalid(err, "TryBeginAll, too many")
	e.wantRecord("a", inbox.LeaseUnknown, 0, 0)
	e.wantRecord("b", inbox.LeaseUnknown, 0, 0)
	e.wantRecord("key-0", inbox.LeaseUnknown, 0, 0)

	a, b := e.begin("a", 1), e.begin("b", 1)
	_, err = e.s.MarkAllProcessed(e.ctx, []inbox.Lease{a, b, a})
	e.wantInvalid(err, "MarkAllProcessed, a key twice")
	many := make([]inbox.Lease, inbox.MaxLeaseBatch+1)
	for i, key := range numbered(len(many)) {
		many[i] = inbox.Lease{Key: key, ID: inbox.NewLeaseID()}
	}
	_, err = e.s.MarkAllProcessed(e.ctx, many)
	e.wantInvalid(err, "MarkAllProcessed, too many")
	e.wantRecord("a", inbox.LeaseBusy, 1, 1)
}

func leaseLargestBatch(e *leaseEnv) {
	keys := numbered(inbox.MaxLeaseBatch)
	leases := make([]inbox.Lease, len(keys))
	for i, a := range e.tryAll(requests(keys...)) {
		if a.Status != inbox.LeaseAcquired || a.Token != 1 {
			e.Fatalf("TryBeginAll() of %q = %+v, want it acquired", keys[i], a)
		}
		leases[i] = inbox.Lease{Key: keys[i], ID: a.LeaseID, Token: a.Token}
	}
	for i, status := range e.tryMarkAll(leases) {
		if status != inbox.LeaseProcessed {
			e.Fatalf("MarkAllProcessed() of %q = %s, want Processed", keys[i], status)
		}
	}
	for _, key := range []string{keys[0], keys[len(keys)-1]} {
		e.wantBegin(request(key), inbox.LeaseProcessed, 1)
	}
}
