package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/anishathalye/porcupine"

	"github.com/waybill-go/waybill/inbox/lease"
)

func leaseHistoryTests() []leaseTest {
	return []leaseTest{{"random calls at once, in one order", leaseHistory, nil}}
}

const (
	historyCallers = 6
	historyCalls   = 40 // of each caller
	historyKey     = 8  // calls of each caller for a key, before the next: those for the last ones mix with them
)

// leaseCall is a call for a key.
type leaseCall struct {
	method string
	id     string // of the lease, or the one that a new lease gets
	req    lease.Request
	back   lease.Release
}

func (c leaseCall) String() string {
	return fmt.Sprintf("%s %.6s, request %.6q, at most %d attempts, %+v", c.method, c.id, c.req.RequestID, c.req.MaxAttempts, c.back)
}

// leaseTold is the answer to it; zero if there was none.
type leaseTold struct {
	status   lease.Status
	token    int64 // of a lease that was acquired, or as it was read
	attempts int   // of begin and read
}

// on returns what the contract answers to the call, and what the key is then. All leases outlast the test.
func (c leaseCall) on(k modelKey) (modelKey, leaseTold) {
	var told leaseTold
	switch c.method {
	case "begin":
		if k, told.status = k.begin(c.req, c.id, 0); told.status == lease.Acquired {
			told.token = k.token
		}
		told.attempts = k.attempts
	case "mark":
		k, told.status = k.mark(c.id, 0)
	case "release":
		k, told.status = k.release(c.id, c.back, 0)
	case "renew":
		k, told.status = k.renew(c.id, c.req.TTL, 0)
	case "read":
		told = leaseTold{k.status(0), k.token, k.attempts}
	}
	return k, told
}

var leaseContract = porcupine.Model{
	Init: func() any { return modelKey{} },
	Step: func(state, input, output any) (bool, any) {
		k, told := input.(leaseCall).on(state.(modelKey))
		return output == leaseTold{} || output == told, k
	},
}

// leaseHistory makes callers begin, renew, mark, release and read the same keys concurrently, with each other's
// leases, repeat requests, and abandon calls now and then.
func leaseHistory(e *leaseEnv) {
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	h := newCallHistory()
	shared := leaseIDs{ids: make(map[string][]string)}
	together(historyCallers, func(caller int) {
		rng := rand.New(rand.NewPCG(seed, uint64(caller)))
		for i := range historyCalls {
			key := fmt.Sprintf("key %d", i/historyKey)
			c := anyLeaseCall(rng, key, shared.recent(rng, key))
			ctx, cancel, short := callContext(e.ctx, rng)
			h.add(caller, key, func() (any, any, bool) {
				told, err := e.call(ctx, &c)
				if err != nil && !short {
					e.check(err, c.method)
				}
				if c.req.RequestID != "" || told.status == lease.Acquired {
					shared.add(key, c.id)
				}
				return c, told, err == nil
			})
			cancel()
		}
	})
	if err := h.inOneOrder(leaseContract); err != nil {
		e.Error(err)
	}
}

// leaseIDs are the ids of possible leases of each key, for all callers.
type leaseIDs struct {
	mu  sync.Mutex
	ids map[string][]string
}

func (l *leaseIDs) add(key, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids[key] = append(l.ids[key], id)
}

// recent returns one of the latest ids, or one that no lease has.
func (l *leaseIDs) recent(rng *rand.Rand, key string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := append([]string{lease.NewID()}, l.ids[key]...)
	ids = ids[max(0, len(ids)-3):]
	return ids[rng.IntN(len(ids))]
}

// anyLeaseCall draws a call for a key; id is that of a possible lease. Few mark, because that ends a key's use.
func anyLeaseCall(rng *rand.Rand, key, id string) leaseCall {
	c := leaseCall{id: id, req: lasting(request(key))}
	switch rng.IntN(24) {
	case 0:
		c.method = "mark"
	case 1, 2, 3, 4, 5, 6:
		c.method = "release"
		c.back.Uncounted = rng.IntN(3) == 0
	case 7, 8, 9:
		c.method = "renew"
	case 10, 11, 12:
		c.method = "read"
	default:
		c.method = "begin"
		c.req.MaxAttempts = rng.IntN(6)
		switch rng.IntN(3) {
		case 0:
			c.req.RequestID = id
		case 1:
			c.req.RequestID = lease.NewID()
		}
		c.id = c.req.LeaseID()
	}
	return c
}

// call makes the call. The id of a lease that the store has drawn replaces the call's.
func (e *leaseEnv) call(ctx context.Context, c *leaseCall) (told leaseTold, err error) {
	l := lease.Lease{Key: c.req.Key, ID: c.id}
	err = e.repeat(func() error {
		switch c.method {
		case "begin":
			a, err := e.s.TryBegin(ctx, c.req)
			if a.LeaseID != "" {
				c.id = a.LeaseID
			}
			told = leaseTold{a.Status, a.Token, a.Attempts}
			return err
		case "mark":
			told.status, err = e.s.MarkProcessed(ctx, l)
			return err
		case "release":
			told.status, err = e.s.ReleaseLease(ctx, l, c.back)
			return err
		case "renew":
			a, err := e.s.RenewLease(ctx, l, c.req.TTL)
			told.status = a.Status
			return err
		}
		rec, err := e.s.ReadLease(ctx, l.Key)
		told = leaseTold{rec.Status, rec.Token, rec.Attempts}
		return err
	})
	if err != nil {
		return leaseTold{}, err
	}
	return told, nil
}
