package storetest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
)

// of returns a message of a tenant.
func of(tenant string, m waybill.Message) waybill.Message {
	m.Tenant = tenant
	return m
}

// claimAhead claims what tenants other than "large" have enqueued.
func (n *node[Tx]) claimAhead(req contract.AheadRequest) (claims []contract.Claim, reached int64) {
	n.Helper()
	req.Lanes, req.Without = n.lease.Lanes, []string{"large", "big"}
	if req.Limit == 0 {
		req.Limit, req.Span = allRows, allRows
	}
	slices.Sort(req.Held)
	claims, reached, err := n.s.ClaimAhead(n.ctx, req)
	n.must(err, "ClaimAhead")
	return claims, reached
}

// claimAhead: messages of other tenants are found behind a backlog, in the order of their positions,
// and stay where claims find them.
func claimAhead[Tx any](e *env[Tx]) {
	n := e.join("r1")
	for i := range 20 {
		e.enqueue(of("large", msg(fmt.Sprint("l", i), fmt.Sprint("l", i%3))))
	}
	claims, reached := n.claimAhead(contract.AheadRequest{})
	n.wantNext("only the large tenant's are there", claims)
	e.enqueue(of("small", msg("s1", "")), of("other", msg("o1", "k")), of("big", msg("b1", "")), of("small", msg("s2", "k")))
	claims, end := n.claimAhead(contract.AheadRequest{Above: reached})
	n.wantNext("behind what was read", claims, "o1", "s1", "s2")
	if !slices.IsSortedFunc(claims, func(a, b contract.Claim) int { return int(a.Position - b.Position) }) || end <= reached {
		e.Errorf("claimed %v up to %d, want the order of positions, beyond %d", claimedIDs(claims), end, reached)
	}
	again, _ := n.claimAhead(contract.AheadRequest{Held: []int64{claims[0].Position}})
	n.wantNext("one of them is claimed", again, "o1", "s2")
	n.settle(published(find(claims, "s1"))...)
	rest := n.next(allRows, claims[1:]...)
	if len(rest) != 21 {
		e.Errorf("a claim after that found %v, want all of the large tenants", claimedIDs(rest))
	}
	n.settle(failed(find(claims, "o1"), 0))
	again, _ = n.claimAhead(contract.AheadRequest{Above: reached})
	n.wantNext("behind one of its key that waits", again, "s2")
	if len(again) == 1 && !again[0].Blocked {
		e.Errorf("s2 is not blocked by o1, which waits")
	}
}

// claimAheadKeys: a message is not claimed while an earlier one of its key, of any tenant, stays in the
// outbox and is not held by the caller.
func claimAheadKeys[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(of("large", msg("l1", "k1")), of("small", msg("s1", "k1")), of("small", msg("s2", "k2")), of("large", msg("l2", "k2")),
		of("small", msg("s3", "k2")), of("small", msg("s4", "k3")), of("small", msg("s5", "k3")), of("small", msg("s6", "")))
	claims, _ := n.claimAhead(contract.AheadRequest{})
	n.wantNext("what passes nothing", claims, "s2", "s4", "s5", "s6")
	all := n.claim()
	claims, _ = n.claimAhead(contract.AheadRequest{Held: []int64{find(all, "l1").Position, find(all, "s2").Position}})
	n.wantNext("what follows a claimed one", claims, "s1", "s4", "s5", "s6")
	claims, _ = n.claimAhead(contract.AheadRequest{Above: find(all, "s4").Position})
	n.wantNext("behind one that an earlier look has passed", claims, "s6")
}

// claimAheadParts: a look ahead continues where the previous one ended because of its limit, its bytes
// or its span.
func claimAheadParts[Tx any](e *env[Tx]) {
	n := e.join("r1")
	var want []string
	for i := range 12 {
		m := of("small", msg(fmt.Sprint("s", i), fmt.Sprint("k", i)))
		m.Payload = make([]byte, 1000)
		e.enqueue(of("large", msg(fmt.Sprint("l", i), "")), m)
		want = append(want, m.ID)
	}
	for _, tt := range []struct {
		name string
		req  contract.AheadRequest
	}{
		{"limit", contract.AheadRequest{Limit: 5, Span: allRows}},
		{"bytes", contract.AheadRequest{Limit: allRows, Span: allRows, Bytes: 2500}},
		{"span", contract.AheadRequest{Limit: allRows, Span: 7}},
	} {
		var got []string
		calls := 0
		for ; calls < 100; calls++ {
			claims, reached := n.claimAhead(tt.req)
			if got = append(got, claimedIDs(claims)...); reached == tt.req.Above {
				break
			}
			tt.req.Above = reached
		}
		if !slices.Equal(got, want) || calls < 3 || calls == 100 {
			e.Errorf("%s: claimed %v in %d calls, want %v in some", tt.name, got, calls, want)
		}
	}
}

// claimShared: a relay publishes what two tenants have enqueued behind the backlog of a third, which is
// more than it holds in memory, among the first; order per key is kept.
func claimShared[Tx any](e *env[Tx]) {
	const large, few, batch = 1200, 10, 10
	var list []waybill.Message
	for i := range large {
		list = append(list, of("large", msg(fmt.Sprintf("l%04d", i), fmt.Sprint("k", i%7))))
	}
	for i := range few {
		list = append(list, of("small", msg(fmt.Sprint("s", i), "")), of("other", msg(fmt.Sprint("o", i), "o")))
	}
	e.enqueue(list...)
	ctx, stop := context.WithCancel(e.ctx)
	defer stop()
	src := &looked{AheadSource: e.s.(contract.AheadSource), done: make(chan struct{})}
	pub := &arrivals{want: len(list), all: stop, after: src.done}
	r, err := relay.New(src, pub, relay.Config{BatchSize: batch, Parallelism: 1, Observer: observe.LogTo(slog.New(slog.DiscardHandler))})
	e.must(err, "relay.New")
	e.must(r.Run(ctx), "Run")
	e.gone(ids(list)...)
	pub.check(e.T, 15*batch)
}

// looked is a source that signals when it has been asked for what is behind a backlog.
type looked struct {
	contract.AheadSource
	once sync.Once
	done chan struct{}
}

// ClaimAhead implements [contract.AheadSource].
func (l *looked) ClaimAhead(ctx context.Context, req contract.AheadRequest) ([]contract.Claim, int64, error) {
	defer l.once.Do(func() { close(l.done) })
	return l.AheadSource.ClaimAhead(ctx, req)
}

// arrivals is a publisher that remembers the order in which messages arrived. It answers once the relay
// has looked past the backlog, however long that takes.
type arrivals struct {
	ids   []string
	want  int
	all   func()
	after <-chan struct{}
}

// Send implements [contract.Publisher].
func (p *arrivals) Send(_ context.Context, msgs []contract.Outgoing) func() []error {
	for _, m := range msgs {
		p.ids = append(p.ids, m.ID)
	}
	if len(p.ids) >= p.want {
		p.all()
	}
	return func() []error {
		<-p.after
		return make([]error, len(msgs))
	}
}

// check fails if a message of the small tenants arrived after a place, or one of a key before an
// earlier one.
func (p *arrivals) check(t interface{ Errorf(string, ...any) }, last int) {
	before := make(map[string]string) // the latest id of each key
	for i, id := range p.ids {
		key := id[:1]
		if n := 0; key == "l" {
			_, _ = fmt.Sscanf(id, "l%d", &n)
			key += fmt.Sprint(n % 7)
		} else if i >= last {
			t.Errorf("%s came at place %d, want it among the first %d", id, i+1, last)
		}
		if strings.Compare(before[key], id) >= 0 {
			t.Errorf("%s came after %s, a later one of its key", id, before[key])
		}
		before[key] = id
	}
	if len(p.ids) != p.want {
		t.Errorf("%d messages came, want %d", len(p.ids), p.want)
	}
}
