package memstore

import (
	"context"

	"github.com/waybill-go/waybill/internal/lanehash"
	"github.com/waybill-go/waybill/relay"
)

// RelayStates implements [relay.Inspector].
func (s *Store) RelayStates(ctx context.Context) ([]relay.NodeState, error) {
	states := []relay.NodeState{}
	err := s.inTx(ctx, func(*Tx) error {
		nodes := map[string]relay.NodeState{}
		for node, r := range s.data.relays {
			nodes[node] = relay.NodeState{Node: node, StartedAt: r.started.UTC(), ExpiresAt: r.until.UTC(), Alive: r.until.After(s.now()), Lanes: []int{}}
		}
		for n := range lanehash.Count {
			l := s.data.lanes[n]
			st := nodes[l.owner]
			st.Lanes = append(st.Lanes, n)
			if l.since.After(st.Since) {
				st.Since = l.since.UTC()
			}
			nodes[l.owner] = st
		}
		states = append(states, sorted(nodes, func(relay.NodeState) bool { return true }, func(n relay.NodeState) string { return n.Node })...)
		return nil
	})
	return states, err
}
