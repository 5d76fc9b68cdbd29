package settleplan

import (
	"reflect"
	"slices"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// claim returns a claim of the message at a position, under a key.
func claim(position int64, key string, waiting bool) *contract.Claim {
	return &contract.Claim{
		Message: waybill.Message{Topic: "orders", Key: key}, Lane: contract.Lane{Number: 3, Epoch: 7}, Position: position, Waiting: waiting,
	}
}

// positions returns the positions of rows, negative where the row is behind.
func positions(rows []Row) []int64 {
	list := []int64{}
	for _, r := range rows {
		if r.Behind {
			r.Position = -r.Position
		}
		list = append(list, r.Position)
	}
	return list
}

func TestNew(t *testing.T) {
	t.Parallel()
	const waits, ready = true, false
	for _, tc := range []struct {
		name string
		list []contract.Settlement
		want map[string][]int64
	}{
		{"published only", []contract.Settlement{
			{Claim: claim(1, "k", ready), Outcome: contract.Published}, {Claim: claim(2, "", ready), Outcome: contract.Published},
		}, map[string][]int64{}},
		{"several of a key fail", []contract.Settlement{
			{Claim: claim(2, "k", ready), Outcome: contract.Wait}, {Claim: claim(1, "k", ready), Outcome: contract.Wait}, {Claim: claim(3, "", ready), Outcome: contract.Wait},
		}, map[string][]int64{"Park": {-2, 1, 3}}},
		{"what dies is parked last", []contract.Settlement{
			{Claim: claim(1, "k", ready), Outcome: contract.Dead}, {Claim: claim(2, "k", ready), Outcome: contract.Wait},
		}, map[string][]int64{"Park": {2, 1}, "Bury": {1}}},
		{"waiting ones are not parked", []contract.Settlement{
			{Claim: claim(1, "k", waits), Outcome: contract.Published}, {Claim: claim(2, "k", waits), Outcome: contract.Failed},
			{Claim: claim(3, "k", waits), Outcome: contract.Wait, Behind: true}, {Claim: claim(4, "k", waits), Outcome: contract.Schedule},
		}, map[string][]int64{"Done": {1}, "Bury": {2}, "Retry": {-3}, "Schedule": {4}}},
		{"what fails behind one that parks its key is behind", []contract.Settlement{
			{Claim: claim(3, "k", ready), Outcome: contract.Wait}, {Claim: claim(1, "k", ready), Outcome: contract.Wait},
			{Claim: claim(2, "k", ready), Outcome: contract.Dead, Park: true}, {Claim: claim(4, "", ready), Outcome: contract.Dead, Park: true},
			{Claim: claim(5, "", ready), Outcome: contract.Wait},
		}, map[string][]int64{"Park": {-3, 1, 5, 2, 4}, "Bury": {2, 4}}},
		{"nothing is behind one that waits alone, nor is that one", []contract.Settlement{
			{Claim: claim(1, "k", ready), Outcome: contract.Wait, Alone: true}, {Claim: claim(2, "k", ready), Outcome: contract.Wait},
			{Claim: claim(3, "k", ready), Outcome: contract.Wait, Alone: true}, {Claim: claim(4, "k", waits), Outcome: contract.Wait, Alone: true},
		}, map[string][]int64{"Park": {1, 2, 3}, "Retry": {4}}},
		{"fan-out keeps keyed rows behind", []contract.Settlement{
			{Claim: claim(1, "k", ready), Outcome: contract.Fanout, Destinations: []string{"x", "y"}},
			{Claim: claim(2, "", ready), Outcome: contract.Fanout, Destinations: []string{"x"}},
		}, map[string][]int64{"Park": {-1, -1, 2}}},
		{"published with followers", []contract.Settlement{
			{Claim: claim(1, "k", ready), Outcome: contract.Published, Destinations: []string{"x", "y"}},
		}, map[string][]int64{"Park": {1}, "Follow": {1, 1}, "Done": {1}}},
	} {
		p := New(tc.list)
		for _, step := range []struct {
			name string
			rows []Row
		}{{"Park", p.Park}, {"Follow", p.Follow}, {"Done", p.Done}, {"Bury", p.Bury}, {"Schedule", p.Schedule}, {"Retry", p.Retry}} {
			if got := positions(step.rows); !slices.Equal(got, tc.want[step.name]) {
				t.Errorf("%s: %s = %v, want %v", tc.name, step.name, got, tc.want[step.name])
			}
		}
		if want := len(tc.want) == 0; p.OnlyPublished() != want {
			t.Errorf("%s: OnlyPublished() = %v, want %v", tc.name, !want, want)
		}
	}
}

func TestNew_Parks(t *testing.T) {
	t.Parallel()
	p := New([]contract.Settlement{
		{Claim: claim(1, "k", true), Outcome: contract.Dead, Park: true},
		{Claim: claim(2, "", true), Outcome: contract.Dead, Park: true}, // it has no key to park
		{Claim: claim(3, "k", true), Outcome: contract.Failed},
	})
	if !p.Bury[0].Parks || p.Bury[1].Parks || p.Bury[2].Parks {
		t.Errorf("Bury = %+v, want that the first parks its key", p.Bury)
	}
}

func TestNew_Promote(t *testing.T) {
	t.Parallel()
	p := New([]contract.Settlement{
		{Claim: claim(1, "k", true), Outcome: contract.Published},
		{Claim: claim(2, "k", true), Outcome: contract.Dead},
		{Claim: claim(3, "", true), Outcome: contract.Dead},
		{Claim: claim(4, "k", false), Outcome: contract.Fanout, Destinations: []string{"x"}},
	})
	want := []Unit{{"orders", "k", ""}, {"orders", "k", "x"}}
	if !reflect.DeepEqual(p.Promote, want) {
		t.Errorf("Promote = %v, want each unit once: %v", p.Promote, want)
	}
}

func TestLanes(t *testing.T) {
	t.Parallel()
	stale, other := claim(2, "k", false), claim(3, "k", false)
	stale.Lane = contract.Lane{Number: 4, Epoch: 1}
	other.Lane = contract.Lane{Number: 5, Epoch: 1}
	list := []contract.Settlement{{Claim: claim(1, "k", false)}, {Claim: stale}, {Claim: stale}, {Claim: other}}
	held := Held(list, []contract.Lane{{Number: 3, Epoch: 7}, {Number: 4, Epoch: 2}, {Number: 9, Epoch: 1}})
	if !slices.Equal(held, []int{3}) {
		t.Errorf("Held() = %v, want the lane whose epoch matches", held)
	}
	if lost := Lost(list, held); !slices.Equal(lost, []int{4, 5}) {
		t.Errorf("Lost() = %v, want 4 and 5, each once", lost)
	}
	if kept := Keep(list, held); len(kept) != 1 || kept[0].Claim.Position != 1 {
		t.Errorf("Keep() = %v, want the settlement of lane 3", kept)
	}
}
