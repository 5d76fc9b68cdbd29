package settleplan

import (
	"reflect"
	"slices"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/relay"
)

// claim returns a claim of the message at a position, under a key.
func claim(position int64, key string, waiting bool) *relay.Claim {
	return &relay.Claim{
		Message: waybill.Message{Topic: "orders", Key: key}, Lane: relay.Lane{Number: 3, Epoch: 7}, Position: position, Waiting: waiting,
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
		list []relay.Settlement
		want map[string][]int64
	}{
		{"published only", []relay.Settlement{
			{Claim: claim(1, "k", ready), Outcome: relay.Published}, {Claim: claim(2, "", ready), Outcome: relay.Published},
		}, map[string][]int64{}},
		{"several of a key fail", []relay.Settlement{
			{Claim: claim(2, "k", ready), Outcome: relay.Wait}, {Claim: claim(1, "k", ready), Outcome: relay.Wait}, {Claim: claim(3, "", ready), Outcome: relay.Wait},
		}, map[string][]int64{"Park": {-2, 1, 3}}},
		{"what dies is parked last", []relay.Settlement{
			{Claim: claim(1, "k", ready), Outcome: relay.Dead}, {Claim: claim(2, "k", ready), Outcome: relay.Wait},
		}, map[string][]int64{"Park": {2, 1}, "Bury": {1}}},
		{"waiting ones are not parked", []relay.Settlement{
			{Claim: claim(1, "k", waits), Outcome: relay.Published}, {Claim: claim(2, "k", waits), Outcome: relay.Failed},
			{Claim: claim(3, "k", waits), Outcome: relay.Wait, Behind: true}, {Claim: claim(4, "k", waits), Outcome: relay.Schedule},
		}, map[string][]int64{"Done": {1}, "Bury": {2}, "Retry": {-3}, "Schedule": {4}}},
		{"what fails behind one that parks its key is behind", []relay.Settlement{
			{Claim: claim(3, "k", ready), Outcome: relay.Wait}, {Claim: claim(1, "k", ready), Outcome: relay.Wait},
			{Claim: claim(2, "k", ready), Outcome: relay.Dead, Park: true}, {Claim: claim(4, "", ready), Outcome: relay.Dead, Park: true},
			{Claim: claim(5, "", ready), Outcome: relay.Wait},
		}, map[string][]int64{"Park": {-3, 1, 5, 2, 4}, "Bury": {2, 4}}},
		{"nothing is behind one that waits alone, nor is that one", []relay.Settlement{
			{Claim: claim(1, "k", ready), Outcome: relay.Wait, Alone: true}, {Claim: claim(2, "k", ready), Outcome: relay.Wait},
			{Claim: claim(3, "k", ready), Outcome: relay.Wait, Alone: true}, {Claim: claim(4, "k", waits), Outcome: relay.Wait, Alone: true},
		}, map[string][]int64{"Park": {1, 2, 3}, "Retry": {4}}},
		{"fan-out keeps keyed rows behind", []relay.Settlement{
			{Claim: claim(1, "k", ready), Outcome: relay.Fanout, Destinations: []string{"x", "y"}},
			{Claim: claim(2, "", ready), Outcome: relay.Fanout, Destinations: []string{"x"}},
		}, map[string][]int64{"Park": {-1, -1, 2}}},
		{"published with followers", []relay.Settlement{
			{Claim: claim(1, "k", ready), Outcome: relay.Published, Destinations: []string{"x", "y"}},
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
	p := New([]relay.Settlement{
		{Claim: claim(1, "k", true), Outcome: relay.Dead, Park: true},
		{Claim: claim(2, "", true), Outcome: relay.Dead, Park: true}, // it has no key to park
		{Claim: claim(3, "k", true), Outcome: relay.Failed},
	})
	if !p.Bury[0].Parks || p.Bury[1].Parks || p.Bury[2].Parks {
		t.Errorf("Bury = %+v, want that the first parks its key", p.Bury)
	}
}

func TestNew_Promote(t *testing.T) {
	t.Parallel()
	p := New([]relay.Settlement{
		{Claim: claim(1, "k", true), Outcome: relay.Published},
		{Claim: claim(2, "k", true), Outcome: relay.Dead},
		{Claim: claim(3, "", true), Outcome: relay.Dead},
		{Claim: claim(4, "k", false), Outcome: relay.Fanout, Destinations: []string{"x"}},
	})
	want := []Unit{{"orders", "k", ""}, {"orders", "k", "x"}}
	if !reflect.DeepEqual(p.Promote, want) {
		t.Errorf("Promote = %v, want each unit once: %v", p.Promote, want)
	}
}

func TestLanes(t *testing.T) {
	t.Parallel()
	stale, other := claim(2, "k", false), claim(3, "k", false)
	stale.Lane = relay.Lane{Number: 4, Epoch: 1}
	other.Lane = relay.Lane{Number: 5, Epoch: 1}
	list := []relay.Settlement{{Claim: claim(1, "k", false)}, {Claim: stale}, {Claim: stale}, {Claim: other}}
	held := Held(list, []relay.Lane{{Number: 3, Epoch: 7}, {Number: 4, Epoch: 2}, {Number: 9, Epoch: 1}})
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
