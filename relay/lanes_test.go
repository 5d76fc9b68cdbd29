package relay

import (
	"slices"
	"testing"
	"time"
)

func TestLaneSet_Shares(t *testing.T) {
	t.Parallel()
	s := newLaneSet()
	lanes := []Lane{{0, 1}, {1, 1}, {2, 1}, {3, 1}}
	s.renewed(Lease{Lanes: lanes, Share: 4}, time.Now(), time.Minute)
	if got, again := claimable(s); !slices.Equal(got, lanes) || len(again) != 4 {
		t.Errorf("claimable() = %v, %v, want all, from their beginning", got, again)
	}
	if _, again := claimable(s); len(again) != 0 {
		t.Errorf("lanes %v are read from their beginning a second time", again)
	}
	if !s.renewed(Lease{Lanes: lanes, Share: 2}, time.Now(), time.Minute) {
		t.Error("that lanes have to leave is no change")
	}
	if got, _ := claimable(s); !slices.Equal(got, lanes[:2]) {
		t.Errorf("claimable() = %v, want those that stay", got)
	}
	if s.stays(lanes[3]) || !s.owns(lanes[3]) {
		t.Error("a leaving lane should be owned and not stay")
	}
	s.renewed(Lease{Lanes: lanes[:3], Share: 3}, time.Now(), time.Minute)
	if _, again := claimable(s); !slices.Equal(again, []int{2}) {
		t.Errorf("from their beginning: %v, want the lane that was leaving and stays", again)
	}
}

func TestLaneSet_NewEpochIsANewLane(t *testing.T) {
	t.Parallel()
	s := newLaneSet()
	s.renewed(Lease{Lanes: []Lane{{0, 1}}, Share: 1}, time.Now(), time.Minute)
	claimable(s)
	if !s.renewed(Lease{Lanes: []Lane{{0, 2}}, Share: 1}, time.Now(), time.Minute) {
		t.Error("a lane that came back under a new epoch is no change")
	}
	if got, again := claimable(s); !slices.Equal(got, []Lane{{0, 2}}) || len(again) != 1 {
		t.Errorf("claimable() = %v, %v, want the lane under its new epoch, from its beginning", got, again)
	}
	if s.owns(Lane{0, 1}) {
		t.Error("the old epoch is still owned")
	}
}

func claimable(s *laneSet) (lanes []Lane, again []int) {
	r := &Relay{lanes: s, backlog: newBacklog()}
	return r.claimable()
}

// TestClaimable_OldEpochUnderWay: what is under way under an old epoch is not passed by what
// lies behind it under the new one.
func TestClaimable_OldEpochUnderWay(t *testing.T) {
	t.Parallel()
	r := &Relay{lanes: newLaneSet(), backlog: newBacklog()}
	old := &Claim{Lane: Lane{0, 1}, Position: 1}
	r.backlog.hold(old)
	r.lanes.renewed(Lease{Lanes: []Lane{{0, 2}, {1, 1}}, Share: 2}, time.Now(), time.Minute)
	if got, again := r.claimable(); !slices.Equal(got, []Lane{{1, 1}}) || !slices.Equal(again, []int{1}) {
		t.Errorf("claimable() = %v, %v, want the other lane only", got, again)
	}
	r.backlog.release(old)
	if got, again := r.claimable(); len(got) != 2 || !slices.Equal(again, []int{0}) {
		t.Errorf("claimable() = %v, %v, want both, the one that waited from its beginning", got, again)
	}
}

// TestReadOn_LetGoDuringAClaim: what a claim finds behind messages that were let go of since
// it began is not taken in.
func TestReadOn_LetGoDuringAClaim(t *testing.T) {
	t.Parallel()
	s, lanes := newLaneSet(), []Lane{{0, 1}, {1, 1}}
	s.renewed(Lease{Lanes: lanes, Share: 2}, time.Now(), time.Minute)
	claimable(s) // a claim begins
	if !s.readOn(lanes[1]) {
		t.Error("what is found in a lane that stays is not taken in")
	}
	s.renewed(Lease{Lanes: lanes, Share: 1}, time.Now(), time.Minute)
	if s.readOn(lanes[1]) {
		t.Error("what is found in a leaving lane is taken in")
	}
	s.renewed(Lease{Lanes: lanes, Share: 2}, time.Now(), time.Minute)
	if s.readOn(lanes[1]) {
		t.Error("what is found in a lane that was to leave meanwhile is taken in")
	}
	claimable(s) // the next claim reads it from its beginning
	if !s.readOn(lanes[1]) {
		t.Error("what the next claim finds is not taken in")
	}
}

// TestTakeAgain_LeavesWhileAClaimBegins: a lane that is told to leave after a claim has listed
// it is read from its beginning when it stays after all, and not by that claim, which leaves
// out what is let go of only now.
func TestTakeAgain_LeavesWhileAClaimBegins(t *testing.T) {
	t.Parallel()
	s, lanes := newLaneSet(), []Lane{{0, 1}, {1, 1}}
	s.renewed(Lease{Lanes: lanes, Share: 2}, time.Now(), time.Minute)
	claimable(s)
	listed := s.staying() // a claim begins
	s.renewed(Lease{Lanes: lanes, Share: 1}, time.Now(), time.Minute)
	if again := s.takeAgain(listed); len(again) != 0 {
		t.Errorf("the claim that has begun reads lanes %v from their beginning, want none", again)
	}
	s.renewed(Lease{Lanes: lanes, Share: 2}, time.Now(), time.Minute)
	if _, again := claimable(s); !slices.Equal(again, []int{1}) {
		t.Errorf("from their beginning: %v, want the lane that was to leave", again)
	}
}
