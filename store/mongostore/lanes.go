package mongostore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/lanehash"
	"github.com/waybill-go/waybill/relay"
)

// laneDoc is a lane. Changes is counted up by every transaction that relies on the lane, so
// that two of them never commit side by side.
type laneDoc struct {
	ID      int       `bson:"_id"`
	Epoch   int64     `bson:"epoch"`
	Owner   string    `bson:"owner"`
	Since   time.Time `bson:"since"`
	Changes int64     `bson:"changes"`
}

// relayDoc is a relay that has joined, and until when its lease is.
type relayDoc struct {
	Node    string    `bson:"_id"`
	Started time.Time `bson:"started"`
	Until   time.Time `bson:"until"`
	Micros  int64     `bson:"lease_us"` // how long the lease is; 0 if an earlier version has written it
}

// RenewLanes implements [contract.Source].
func (s *Store) RenewLanes(ctx context.Context, req contract.LeaseRequest) (lease contract.Lease, err error) {
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		alive, err := t.renew(ctx, req)
		if err != nil {
			return err
		}
		lanes, err := find[laneDoc](ctx, s.lanes, bson.M{}, sorted("_id"))
		if err != nil {
			return err
		}
		before := slices.Clone(lanes)
		freeLanes(lanes, alive, req)
		lease = t.takeLanes(lanes, len(alive), req.Node)
		return t.saveLanes(ctx, before, lanes)
	})
	return lease, err
}

// renew extends the relay's own lease, forgets relays whose lease has ended, and returns the
// names of the others.
func (t *tx) renew(ctx context.Context, req contract.LeaseRequest) ([]string, error) {
	known, err := find[relayDoc](ctx, t.relays, bson.M{})
	if err != nil {
		return nil, err
	}
	own := relayDoc{Node: req.Node, Started: t.now, Until: t.now.Add(req.TTL), Micros: req.TTL.Microseconds()}
	alive := []string{req.Node}
	registered := req.Join
	for _, r := range known {
		switch {
		case r.Node == req.Node:
			own.Started, registered = r.Started, true
		case r.Until.After(t.now):
			alive = append(alive, r.Node)
			if longest := t.now.Add(time.Duration(r.Micros) * time.Microsecond); r.Micros > 0 && r.Until.After(longest) { // the clock was set back
				r.Until = longest
				if err := save(ctx, t.relays, r.Node, r); err != nil {
					return nil, err
				}
			}
		default:
			if err := remove(ctx, t.relays, r.Node); err != nil {
				return nil, err
			}
		}
	}
	if !registered {
		return nil, waybill.ErrLeaseLost
	}
	return alive, save(ctx, t.relays, own.Node, own)
}

// freeLanes frees the lanes that the request gives up and those whose owner is gone.
func freeLanes(lanes []laneDoc, alive []string, req contract.LeaseRequest) {
	for i := range lanes {
		l := &lanes[i]
		given := l.Owner == req.Node && slices.Contains(req.Give, l.ID)
		if l.Owner != "" && (given || !slices.Contains(alive, l.Owner)) {
			l.Owner, l.Since = "", time.Time{}
		}
	}
}

// takeLanes takes free lanes up to an even share.
func (t *tx) takeLanes(lanes []laneDoc, relays int, node string) contract.Lease {
	lease := contract.Lease{Total: lanehash.Count, Share: (lanehash.Count + relays - 1) / relays, Lanes: []contract.Lane{}}
	owned := 0
	for _, l := range lanes {
		if l.Owner == node {
			owned++
		}
	}
	for i := range lanes {
		l := &lanes[i]
		if l.Owner == "" && owned < lease.Share {
			owned++
			l.Epoch, l.Owner, l.Since = l.Epoch+1, node, t.now
		}
		if l.Owner == node {
			lease.Lanes = append(lease.Lanes, contract.Lane{Number: l.ID, Epoch: l.Epoch})
		}
	}
	return lease
}

func (t *tx) saveLanes(ctx context.Context, before, after []laneDoc) error {
	for i, l := range after {
		if l == before[i] {
			continue
		}
		if err := save(ctx, t.lanes, l.ID, l); err != nil {
			return err
		}
	}
	return nil
}

// current returns the lanes that still have their epoch.
func (t *tx) current(ctx context.Context, lanes []contract.Lane) ([]contract.Lane, error) {
	stored, err := find[laneDoc](ctx, t.lanes, bson.M{"_id": in(numbersOf(lanes))})
	return slices.DeleteFunc(slices.Clone(lanes), func(l contract.Lane) bool {
		return !slices.ContainsFunc(stored, func(d laneDoc) bool { return d.ID == l.Number && d.Epoch == l.Epoch })
	}), err
}

// LeaveLanes implements [contract.Source].
func (s *Store) LeaveLanes(ctx context.Context, node string) error {
	s.wake.Leave(node)
	return s.inTx(ctx, func(ctx context.Context, t *tx) error {
		if err := remove(ctx, s.relays, node); err != nil {
			return err
		}
		_, err := s.lanes.UpdateMany(ctx, bson.M{"owner": node}, bson.M{"$set": bson.M{"owner": "", "since": time.Time{}}})
		return err
	})
}

// lockLanes keeps other transactions from changing what is in the lanes, or whose they are,
// until this one ends. Whatever looks at a unit before it writes must have done so.
func (t *tx) lockLanes(ctx context.Context, lanes ...int) error {
	_, err := t.lanes.UpdateMany(ctx, bson.M{"_id": in(lanes)}, bson.M{"$inc": bson.M{"changes": int64(1)}})
	return err
}

// RelayStates implements [relay.Inspector].
func (s *Store) RelayStates(ctx context.Context) ([]relay.NodeState, error) {
	nodes := map[string]relay.NodeState{}
	err := s.inTx(ctx, func(ctx context.Context, t *tx) error {
		clear(nodes)
		relays, err := find[relayDoc](ctx, s.relays, bson.M{})
		if err != nil {
			return err
		}
		for _, r := range relays {
			nodes[r.Node] = relay.NodeState{Node: r.Node, StartedAt: r.Started, ExpiresAt: r.Until, Alive: r.Until.After(t.now), Lanes: []int{}}
		}
		lanes, err := find[laneDoc](ctx, s.lanes, bson.M{}, sorted("_id"))
		for _, l := range lanes {
			st := nodes[l.Owner]
			st.Lanes = append(st.Lanes, l.ID)
			if l.Since.After(st.Since) {
				st.Since = l.Since
			}
			nodes[l.Owner] = st
		}
		return err
	})
	states := make([]relay.NodeState, 0, len(nodes))
	for _, st := range nodes {
		states = append(states, st)
	}
	slices.SortFunc(states, func(a, b relay.NodeState) int { return cmp.Compare(a.Node, b.Node) })
	return states, err
}
