package rows

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/lanehash"
)

// RenewLanes implements [contract.Source]. Round trips: 4 at most, and 1 for each relay that has gone.
func (e *Engine[S]) RenewLanes(ctx context.Context, req contract.LeaseRequest) (lease contract.Lease, err error) {
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		alive, err := t.renew(ctx, req)
		if err != nil {
			return err
		}
		list, err := t.Lanes.Find(ctx, Query[*Lane]{}.sorted(lanes.Number.rising()))
		if err != nil {
			return err
		}
		var changed []*Lane
		lease, changed = distribute(list, alive, req, t.Now)
		return t.Lanes.Put(ctx, changed...)
	})
	return lease, err
}

// renew extends the relay's own lease, forgets relays whose lease has ended, and returns the names of those that
// are alive.
func (t *Tx) renew(ctx context.Context, req contract.LeaseRequest) ([]string, error) {
	known, err := t.Relays.Find(ctx, Query[*Relay]{})
	if err != nil {
		return nil, err
	}
	own := &Relay{Node: req.Node, Started: t.Now, Until: t.Now.Add(req.TTL), TTL: req.TTL}
	alive, changed, registered := []string{req.Node}, []*Relay{own}, req.Join
	for _, r := range known {
		switch {
		case r.Node == req.Node:
			own.Started, registered = r.Started, true
		case !r.Until.After(t.Now):
			if err := t.Relays.Delete(ctx, r.Node); err != nil {
				return nil, err
			}
		default:
			alive = append(alive, r.Node)
			if longest := t.Now.Add(r.TTL); r.TTL > 0 && r.Until.After(longest) { // the clock was set back
				r.Until = longest
				changed = append(changed, r)
			}
		}
	}
	if !registered {
		return nil, waybill.ErrLeaseLost
	}
	return alive, t.Relays.Put(ctx, changed...)
}

// distribute frees the lanes that the request releases and those whose owner is gone, and takes free ones up to
// an even share. It returns the lanes that it has changed.
func distribute(list []*Lane, alive []string, req contract.LeaseRequest, now time.Time) (contract.Lease, []*Lane) {
	lease := contract.Lease{Total: lanehash.Count, Share: (lanehash.Count + len(alive) - 1) / len(alive), Lanes: []contract.Lane{}}
	var changed []*Lane
	owned := 0
	for _, l := range list {
		given := l.Owner == req.Node && slices.Contains(req.Give, l.Number)
		if l.Owner != "" && (given || !slices.Contains(alive, l.Owner)) {
			l.Owner, l.Since = "", time.Time{}
			changed = append(changed, l)
		}
		if l.Owner == req.Node {
			owned++
		}
	}
	for _, l := range list {
		if l.Owner == "" && owned < lease.Share {
			owned++
			l.Epoch, l.Owner, l.Since = l.Epoch+1, req.Node, now
			if !slices.Contains(changed, l) {
				changed = append(changed, l)
			}
		}
		if l.Owner == req.Node {
			lease.Lanes = append(lease.Lanes, contract.Lane{Number: l.Number, Epoch: l.Epoch})
		}
	}
	return lease, changed
}

// LeaveLanes implements [contract.Source]. Round trips: 3.
func (e *Engine[S]) LeaveLanes(ctx context.Context, node string) error {
	return e.run(ctx, func(ctx context.Context, t *Tx) error {
		if err := t.Relays.Delete(ctx, node); err != nil {
			return err
		}
		owned, err := t.Lanes.Find(ctx, where(lanes.Owner.is(node)))
		if err != nil {
			return err
		}
		for _, l := range owned {
			l.Owner, l.Since = "", time.Time{}
		}
		return t.Lanes.Put(ctx, owned...)
	})
}

// current returns the lanes that still have their epoch.
func (t *Tx) current(ctx context.Context, list []contract.Lane) ([]contract.Lane, error) {
	stored, err := t.Lanes.Get(ctx, numbersOf(list)...)
	epochs := make(map[int]int64, len(stored))
	for _, l := range stored {
		epochs[l.Number] = l.Epoch
	}
	return slices.DeleteFunc(slices.Clone(list), func(l contract.Lane) bool { return epochs[l.Number] != l.Epoch }), err
}

func numbersOf(lanes []contract.Lane) []int {
	numbers := make([]int, len(lanes))
	for i, l := range lanes {
		numbers[i] = l.Number
	}
	return numbers
}

// RelayStates implements [inspect.Relays]. Round trips: 2.
func (e *Engine[S]) RelayStates(ctx context.Context) ([]inspect.RelayState, error) {
	nodes := map[string]inspect.RelayState{}
	err := e.run(ctx, func(ctx context.Context, t *Tx) error {
		clear(nodes)
		relays, err := t.Relays.Find(ctx, Query[*Relay]{})
		if err != nil {
			return err
		}
		for _, r := range relays {
			nodes[r.Node] = inspect.RelayState{Node: r.Node, StartedAt: r.Started.UTC(), ExpiresAt: r.Until.UTC(), Alive: r.Until.After(t.Now), Lanes: []int{}}
		}
		list, err := t.Lanes.Find(ctx, Query[*Lane]{}.sorted(lanes.Number.rising()))
		for _, l := range list {
			st := nodes[l.Owner]
			st.Lanes = append(st.Lanes, l.Number)
			if l.Since.After(st.Since) {
				st.Since = l.Since.UTC()
			}
			nodes[l.Owner] = st
		}
		return err
	})
	states := make([]inspect.RelayState, 0, len(nodes))
	for _, st := range nodes {
		states = append(states, st)
	}
	slices.SortFunc(states, func(a, b inspect.RelayState) int { return cmp.Compare(a.Node, b.Node) })
	return states, err
}
