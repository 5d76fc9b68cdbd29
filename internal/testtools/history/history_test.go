package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// keyed returns the messages that a text such as "a1 a2 b1" names: key and sequence.
func keyed(text string) []Message {
	var msgs []Message
	for _, id := range strings.Fields(text) {
		msgs = append(msgs, Message{ID: id, Key: id[:1], Seq: int(id[1] - '0')})
	}
	return msgs
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, committed, arrived         string
		lost, phantom, reordered, double int
	}{
		{name: "nothing"},
		{name: "as committed", committed: "a1 a2 b1", arrived: "a1 a2 b1"},
		{name: "keys interleave", committed: "a1 a2 b1 b2", arrived: "b1 a1 b2 a2"},
		{name: "committed in no order", committed: "a2 a1", arrived: "a1 a2"},
		{name: "lost in the middle", committed: "a1 a2 a3", arrived: "a1 a3", lost: 1},
		{name: "lost at the end", committed: "a1 a2 b1", arrived: "a1", lost: 2},
		{name: "phantom", committed: "a1", arrived: "a1 a2", phantom: 1},
		{name: "phantom twice", committed: "a1", arrived: "x1 a1 x1", phantom: 2},
		{name: "swapped", committed: "a1 a2", arrived: "a2 a1", reordered: 1},
		{name: "one comes late", committed: "a1 a2 a3 a4", arrived: "a1 a3 a4 a2", reordered: 1},
		{name: "one comes early", committed: "a1 a2 a3 a4", arrived: "a4 a1 a2 a3", reordered: 3},
		{name: "a batch again", committed: "a1 a2 a3", arrived: "a1 a2 a1 a2 a3", double: 2},
		{name: "a batch again in part", committed: "a1 a2 a3 a4", arrived: "a1 a2 a3 a2 a3 a4", double: 2},
		{name: "again between new ones", committed: "a1 a2 a3 a4", arrived: "a1 a2 a1 a3 a2 a4", double: 2},
		{name: "again after the end", committed: "a1 a2", arrived: "a1 a2 a1", double: 1},
		{name: "a repeat hides no skip", committed: "a1 a2 a3 a4", arrived: "a1 a2 a1 a4 a3", double: 1, reordered: 1},
		{name: "early, and again in its place", committed: "a1 a2 a3", arrived: "a3 a1 a2 a3", double: 1, reordered: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := Check(keyed(c.committed), strings.Fields(c.arrived))
			if r.Lost != c.lost || r.Phantom != c.phantom || r.Reordered != c.reordered || r.Doubled != c.double {
				t.Errorf("Check() = %v, want lost %d, phantom %d, reordered %d, doubled %d", r, c.lost, c.phantom, c.reordered, c.double)
			}
			if want := c.lost+c.phantom+c.reordered == 0; r.OK() != want || (len(r.Faults) == 0) != want {
				t.Errorf("OK() = %v with faults %v, want %v", r.OK(), r.Faults, want)
			}
		})
	}
}

func TestCheck_FaultsAreFew(t *testing.T) {
	t.Parallel()
	r := Check(nil, slices.Repeat([]string{"x1"}, 1000))
	if r.Phantom != 1000 || len(r.Faults) != maxFaults {
		t.Errorf("%d phantoms and %d described, want 1000 and %d", r.Phantom, len(r.Faults), maxFaults)
	}
}

func TestReport_String(t *testing.T) {
	t.Parallel()
	want := "committed 3, on the broker 4, lost 1, phantom 1, out of order 1, doubled 1\n" +
		"\tarrival 1, a1, number 1 of key a, came after number 2\n" +
		"\tarrival 2, x1, was never committed\n" +
		"\ta3, number 3 of key a, is lost"
	if got := Check(keyed("a1 a2 a3"), strings.Fields("a2 a1 x1 a2")).String(); got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

// run makes a history that a correct relay may leave behind: keys interleaved, each in
// order, with repetitions of what has arrived. It returns how many repetitions there are.
func run(rng *rand.Rand) (committed []Message, arrived []string, doubled int) {
	next, total := make([]int, 1+rng.IntN(5)), 20+rng.IntN(100)
	for len(committed) < total {
		if len(arrived) > 0 && rng.IntN(4) == 0 {
			from := rng.IntN(len(arrived))
			again := arrived[from:min(len(arrived), from+1+rng.IntN(10))]
			arrived, doubled = append(arrived, again...), doubled+len(again)
			continue
		}
		k := rng.IntN(len(next))
		next[k]++
		m := Message{ID: fmt.Sprintf("%d/%d", k, next[k]), Key: fmt.Sprint(k), Seq: next[k]}
		committed, arrived = append(committed, m), append(arrived, m.ID)
	}
	return committed, arrived, doubled
}

func TestCheck_Detects(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 0))
		committed, arrived, doubled := run(rng)
		if r := Check(committed, arrived); !r.OK() || r.Doubled != doubled {
			t.Fatalf("seed %d: Check() of a good history = %v, want only %d doubled", seed, r, doubled)
		}
		victim := committed[rng.IntN(len(committed))]
		without := slices.DeleteFunc(slices.Clone(arrived), func(id string) bool { return id == victim.ID })
		if r := Check(committed, without); r.Lost != 1 || r.Phantom+r.Reordered != 0 {
			t.Fatalf("seed %d: Check() without %s = %v, want one lost", seed, victim.ID, r)
		}
		extra := slices.Insert(slices.Clone(arrived), rng.IntN(len(arrived)), "rolled back")
		if r := Check(committed, extra); r.Phantom != 1 || r.Lost+r.Reordered != 0 {
			t.Fatalf("seed %d: Check() with one more = %v, want one phantom", seed, r)
		}
		last := committed[len(committed)-1] // has repetitions of others behind it at most
		first := slices.IndexFunc(committed, func(m Message) bool { return m.Key == last.Key })
		if last.Seq == 1 {
			continue
		}
		early := slices.Insert(slices.Clone(arrived), slices.Index(arrived, committed[first].ID), last.ID)
		if r := Check(committed, early); r.Reordered != last.Seq-1 || r.Lost+r.Phantom != 0 {
			t.Fatalf("seed %d: Check() with %s first = %v, want %d out of order", seed, last.ID, r, last.Seq-1)
		}
	}
}

// FuzzCheck compares Check with a count that looks at every pair.
func FuzzCheck(f *testing.F) {
	f.Add([]byte{1, 2, 3}, []byte{1, 3, 2, 9})
	f.Add([]byte{17, 18, 33, 1}, []byte{18, 18, 17, 1, 33})
	f.Fuzz(func(t *testing.T, committed, arrived []byte) {
		var msgs []Message
		for _, b := range committed {
			m := Message{ID: fmt.Sprint(b), Key: fmt.Sprint(b >> 4), Seq: int(b & 15)}
			if !slices.Contains(msgs, m) {
				msgs = append(msgs, m)
			}
		}
		var ids []string
		for _, b := range arrived {
			ids = append(ids, fmt.Sprint(b))
		}
		got, want := Check(msgs, ids), byPairs(msgs, ids)
		got.Faults = nil
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("Check() = %v, want %v", got, want)
		}
	})
}

func byPairs(msgs []Message, ids []string) Report {
	r := Report{Committed: len(msgs), Arrived: len(ids)}
	known := 0
	for _, m := range msgs {
		at := slices.Index(ids, m.ID)
		if at < 0 {
			r.Lost++
			continue
		}
		for _, id := range ids {
			if id == m.ID {
				known++
			}
		}
		if slices.ContainsFunc(msgs, func(later Message) bool {
			before := slices.Index(ids, later.ID)
			return later.Key == m.Key && later.Seq > m.Seq && before >= 0 && before < at
		}) {
			r.Reordered++
		}
	}
	r.Phantom = len(ids) - known
	r.Doubled = known - (len(msgs) - r.Lost)
	return r
}
