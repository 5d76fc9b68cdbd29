package storetest

import (
	"fmt"
	"slices"

	"github.com/waybill-go/waybill/inbox/lease"
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

func (e *leaseEnv) tryAll(reqs []lease.Request) (answers []lease.Answer) {
	e.Helper()
	e.check(e.repeat(func() (err error) {
		answers, err = e.s.TryBeginAll(e.ctx, reqs)
		return err
	}), "TryBeginAll")
	if len(answers) != len(reqs) {
		e.Errorf("%d answers for %d requests", len(answers), len(reqs))
		return make([]lease.Answer, len(reqs))
	}
	return answers
}

func (e *leaseEnv) tryMarkAll(leases []lease.Lease) (statuses []lease.Status) {
	e.Helper()
	e.check(e.repeat(func() (err error) {
		statuses, err = e.s.MarkAllProcessed(e.ctx, leases)
		return err
	}), "MarkAllProcessed")
	if len(statuses) != len(leases) {
		e.Errorf("%d answers for %d leases", len(statuses), len(leases))
		return make([]lease.Status, len(leases))
	}
	return statuses
}

func requests(keys ...string) []lease.Request {
	reqs := make([]lease.Request, len(keys))
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
	e.mark(processed, lease.Processed)
	e.release(released, false, lease.Released)

	answers := e.tryAll(requests("f busy", "z new", "b processed", "e released", "a new"))
	var got []lease.Status
	for _, a := range answers {
		e.checkAnswer(a)
		got = append(got, a.Status)
	}
	want := []lease.Status{lease.Busy, lease.Acquired, lease.Processed, lease.Acquired, lease.Acquired}
	if !slices.Equal(got, want) {
		e.Fatalf("TryBeginAll() = %v, want %v", got, want)
	}
	if answers[3].Attempts != 2 || answers[3].Token != 2 || answers[1].Token != 1 {
		e.Errorf("TryBeginAll() = %+v, want the second attempt at what was released", answers)
	}

	acquired := func(i int, key string) lease.Lease {
		return lease.Lease{Key: key, ID: answers[i].LeaseID, Token: answers[i].Token}
	}
	e.release(acquired(4, "a new"), false, lease.Released)
	lost.ID = lease.NewID()
	statuses := e.tryMarkAll([]lease.Lease{
		lost, acquired(1, "z new"), processed, {Key: "d unknown", ID: lease.NewID()}, acquired(4, "a new"), busy, released,
	})
	wantStatuses := []lease.Status{
		lease.Lost, lease.Processed, lease.Processed, lease.Unknown, lease.Released, lease.Processed, lease.Lost,
	}
	if !slices.Equal(statuses, wantStatuses) {
		e.Fatalf("MarkAllProcessed() = %v, want %v", statuses, wantStatuses)
	}
	e.wantRecord("c lost", lease.Busy, 1, 1)
	e.wantRecord("d unknown", lease.Unknown, 0, 0)
	e.wantRecord("z new", lease.Processed, 1, 1)
	e.wantRecord("a new", lease.Released, 1, 1)
	e.wantRecord("e released", lease.Busy, 2, 2)
}

func leaseBatchLimits(e *leaseEnv) {
	for _, key := range []string{"one", "two", "any"} {
		e.release(e.begin(key, 1), false, lease.Released)
	}
	short := request("any")
	short.TTL, short.Owner = leaseTTL/2, "somebody else"
	answers := e.tryAll([]lease.Request{limited("two", 2), limited("one", 1), short})
	if answers[0].Status != lease.Acquired || answers[1].Status != lease.Exhausted || answers[2].Status != lease.Acquired {
		e.Fatalf("TryBeginAll() = %+v, want one exhausted", answers)
	}
	if answers[0].Remaining <= leaseTTL/2 || answers[2].Remaining > leaseTTL/2 {
		e.Errorf("TryBeginAll() = %+v, want a lease half as long for the last", answers)
	}
	if rec := e.read("any"); rec.Owner != "somebody else" {
		e.Errorf("record = %+v, want the owner who asked for this key", rec)
	}
	e.wantRecord("one", lease.Released, 1, 1)
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
	_, err = e.s.TryBeginAll(e.ctx, requests(numbered(lease.MaxBatch+1)...))
	e.wantInvalid(err, "TryBeginAll, too many")
	e.wantRecord("a", lease.Unknown, 0, 0)
	e.wantRecord("b", lease.Unknown, 0, 0)
	e.wantRecord("key-0", lease.Unknown, 0, 0)

	a, b := e.begin("a", 1), e.begin("b", 1)
	_, err = e.s.MarkAllProcessed(e.ctx, []lease.Lease{a, b, a})
	e.wantInvalid(err, "MarkAllProcessed, a key twice")
	many := make([]lease.Lease, lease.MaxBatch+1)
	for i, key := range numbered(len(many)) {
		many[i] = lease.Lease{Key: key, ID: lease.NewID()}
	}
	_, err = e.s.MarkAllProcessed(e.ctx, many)
	e.wantInvalid(err, "MarkAllProcessed, too many")
	e.wantRecord("a", lease.Busy, 1, 1)
}

func leaseLargestBatch(e *leaseEnv) {
	keys := numbered(lease.MaxBatch)
	leases := make([]lease.Lease, len(keys))
	for i, a := range e.tryAll(requests(keys...)) {
		if a.Status != lease.Acquired || a.Token != 1 {
			e.Fatalf("TryBeginAll() of %q = %+v, want it acquired", keys[i], a)
		}
		leases[i] = lease.Lease{Key: keys[i], ID: a.LeaseID, Token: a.Token}
	}
	for i, status := range e.tryMarkAll(leases) {
		if status != lease.Processed {
			e.Fatalf("MarkAllProcessed() of %q = %s, want Processed", keys[i], status)
		}
	}
	for _, key := range []string{keys[0], keys[len(keys)-1]} {
		e.wantBegin(request(key), lease.Processed, 1)
	}
}
