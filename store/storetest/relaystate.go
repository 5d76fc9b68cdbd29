package storetest

import (
	"slices"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
)

func relayStateTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"before any relay", relayStatesNone[Tx], nil},
		{"one relay", relayStatesOne[Tx], nil},
		{"two relays", relayStatesTwo[Tx], []need{severalLanes}},
		{"one that has died", relayStatesDead[Tx], nil},
		{"one that has left", relayStatesLeft[Tx], nil},
		{"one without lanes", relayStatesIdle[Tx], nil},
	}
}

// relayStates returns the states and checks that every lane is in exactly one of them.
func (e *env[Tx]) relayStates(names ...string) []inspect.RelayState {
	e.Helper()
	states, err := e.s.RelayStates(e.ctx)
	e.must(err, "RelayStates")
	var got []string
	var lanes []int
	for _, n := range states {
		got = append(got, n.Node)
		lanes = append(lanes, n.Lanes...)
		if n.Lanes == nil || !slices.IsSorted(n.Lanes) {
			e.Errorf("lanes of %q are %#v, want them sorted, and never nil", n.Node, n.Lanes)
		}
	}
	slices.Sort(lanes)
	if len(slices.Compact(lanes)) != e.h.Features.Lanes || len(lanes) != e.h.Features.Lanes {
		e.Errorf("%d lanes are listed, want each of %d once", len(lanes), e.h.Features.Lanes)
	}
	if !slices.Equal(got, names) {
		e.Fatalf("RelayStates() has %q, want %q", got, names)
	}
	return states
}

func relayStatesNone[Tx any](e *env[Tx]) {
	free := e.relayStates("")[0]
	if free.Alive || !free.StartedAt.IsZero() || !free.ExpiresAt.IsZero() || !free.Since.IsZero() {
		e.Errorf("the lanes without an owner are %+v, want no times", free)
	}
}

func relayStatesOne[Tx any](e *env[Tx]) {
	n := e.join("r1")
	st := e.relayStates("r1")[0]
	e.wantRecent("StartedAt", st.StartedAt, 0)
	e.wantRecent("ExpiresAt", st.ExpiresAt, longTTL)
	e.wantRecent("Since", st.Since, 0)
	if !st.Alive {
		e.Errorf("state = %+v, want it alive", st)
	}
	e.advance(time.Hour)
	e.must(n.renew(contract.LeaseRequest{}), "renew")
	renewed := e.relayStates("r1")[0]
	e.wantTime("StartedAt", renewed.StartedAt, st.StartedAt)
	e.wantTime("Since", renewed.Since, st.Since)
	e.wantRecent("ExpiresAt", renewed.ExpiresAt, time.Hour+longTTL)
}

func relayStatesTwo[Tx any](e *env[Tx]) {
	b := e.join("b")
	e.advance(time.Hour)
	a := e.join("a")
	e.must(b.renew(contract.LeaseRequest{}), "renew")
	b.giveSurplus()
	e.must(a.renew(contract.LeaseRequest{}), "renew")
	states := e.relayStates("a", "b")
	if len(states[0].Lanes) == 0 || !slices.Equal(states[1].Lanes, numbers(b.lease.Lanes)) {
		e.Errorf("states = %+v, want lanes with both", states)
	}
	e.wantRecent("Since of a", states[0].Since, time.Hour)
	e.wantRecent("Since of b", states[1].Since, 0)
}

func relayStatesDead[Tx any](e *env[Tx]) {
	e.must((&node[Tx]{env: e, name: "r1"}).renew(contract.LeaseRequest{Join: true, TTL: time.Minute}), "join")
	e.advance(time.Hour)
	if st := e.relayStates("r1")[0]; st.Alive || len(st.Lanes) != e.h.Features.Lanes {
		e.Errorf("state = %+v, want it not alive, with its lanes", st)
	}
	e.join("r2")
	if st := e.relayStates("r2")[0]; !st.Alive {
		e.Errorf("state = %+v, want it alive", st)
	}
}

func relayStatesLeft[Tx any](e *env[Tx]) {
	e.join("r1")
	e.must(e.s.LeaveLanes(e.ctx, "r1"), "LeaveLanes")
	if st := e.relayStates("")[0]; !st.Since.IsZero() {
		e.Errorf("the lanes without an owner are %+v, want no time", st)
	}
}

func relayStatesIdle[Tx any](e *env[Tx]) {
	e.join("r1")
	e.join("r2")
	st := e.relayStates("r1", "r2")[1]
	if len(st.Lanes) != 0 || !st.Since.IsZero() || !st.Alive {
		e.Errorf("state = %+v, want no lanes until the other gives some", st)
	}
}
