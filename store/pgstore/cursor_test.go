package pgstore

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill/contract"
)

// sea is a table of one lane for the cursors to read, with writers who commit late.
type sea struct {
	t       *testing.T
	c       *cursors
	lanes   []contract.Lane
	now     time.Time
	last    int64
	visible map[int64]int // lane by position
	keys    map[int64]int // by position; the lane is the key modulo the number of lanes
	open    map[string][]int64
	held    []int64
	server  string
	session int
	during  func() // runs between a page's snapshot and its look
}

func newSea(t *testing.T, lanes int) *sea {
	s := &sea{t: t, c: newCursors(), now: time.Unix(0, 0), visible: make(map[int64]int), keys: make(map[int64]int), open: make(map[string][]int64), server: "a"}
	for n := range lanes {
		s.lanes = append(s.lanes, contract.Lane{Number: n, Epoch: 1})
	}
	return s
}

// draw takes positions for an open writer, without a commit.
func (s *sea) draw(writer string, n int) {
	for range n {
		s.last++
		s.keys[s.last] = int(s.last)
		s.open[writer] = append(s.open[writer], s.last)
	}
}

func (s *sea) commit(writer string) {
	for _, p := range s.open[writer] {
		s.visible[p] = s.keys[p] % len(s.lanes)
	}
	delete(s.open, writer)
}

func (s *sea) write(n int) {
	s.draw("quick", n)
	s.commit("quick")
}

// read returns the positions that a page shows, as the statement does.
func (s *sea) read(p page) []contract.Claim {
	var rows []contract.Claim
	for position := slices.Min(p.from) + 1; position <= s.last && len(rows) < p.limit; position++ {
		lane, ok := s.visible[position]
		if ok && position > p.from[lane] && !slices.Contains(s.held, position) {
			rows = append(rows, contract.Claim{Lane: p.lanes[lane], Position: position})
		}
	}
	return rows
}

func (s *sea) look() look {
	seen := look{Server: s.server, Session: s.session, Last: s.last}
	for id := range s.open {
		seen.Writers = append(seen.Writers, id)
	}
	return seen
}

// claim reads a page as ClaimMessages does, deletes what it found, and returns the positions.
// from is the lowest position that the page began above.
func (s *sea) claim(limit int, again ...int) (found []int64, from int64) {
	s.t.Helper()
	s.c.begin(s.lanes, again)
	patience := youngWriter
	for range 50 {
		p := s.c.page(s.lanes, limit, patience, s.now)
		from = slices.Min(p.from)
		rows := s.read(p)
		if s.during != nil {
			s.during()
			s.during = nil
		}
		if !s.c.took(p, rows, s.look(), s.now) {
			patience *= 64
			continue
		}
		for _, r := range rows {
			found = append(found, r.Position)
			delete(s.visible, r.Position)
		}
		return found, from
	}
	s.t.Fatal("a claim does not come to an end")
	return nil, 0
}

func (s *sea) want(what string, got []int64, want ...int64) {
	s.t.Helper()
	if got = slices.Sorted(slices.Values(got)); !slices.Equal(got, want) {
		s.t.Errorf("%s: claimed %v, want %v", what, got, want)
	}
}

func TestCursors_Forward(t *testing.T) {
	t.Parallel()
	s := newSea(t, 4)
	s.write(10_000)
	total := 0
	for total < 10_000 {
		found, _ := s.claim(500)
		if len(found) == 0 {
			t.Fatalf("nothing found after %d", total)
		}
		total += len(found)
	}
	s.claim(500) // from here on the look before says that all of it was drawn
	if _, from := s.claim(500); from != 10_000 {
		t.Errorf("the next claim reads above %d, want 10000", from)
	}
}

func TestCursors_OldWriter(t *testing.T) {
	t.Parallel()
	s := newSea(t, 1)
	s.write(5)
	s.claim(100)
	s.draw("late", 1) // position 6
	s.write(10)
	s.claim(100)
	s.now = s.now.Add(time.Hour)
	for range 3 {
		s.write(1000)
		s.claim(5000)
	}
	if _, from := s.claim(5000); from < s.last-1000 {
		t.Errorf("with a forgotten writer the claim reads above %d, want what is new only, of %d", from, s.last)
	}
	s.commit("late")
	s.write(1)
	found, _ := s.claim(100)
	s.want("the late one before its successor", found, 6, s.last)
	if _, from := s.claim(100); from < 3000 {
		t.Errorf("after it has ended the claim reads above %d, want what is new", from)
	}
}

// TestCursors_Serialised: b waits for a, and commits after it, while a page is being read.
func TestCursors_Serialised(t *testing.T) {
	t.Parallel()
	for _, age := range []time.Duration{0, time.Hour} {
		s := newSea(t, 1)
		s.write(3)
		s.claim(10)
		s.draw("a", 1)
		s.write(3)
		s.claim(10)
		s.now = s.now.Add(age)
		s.claim(10)
		s.during = func() { s.commit("a"); s.write(1) }
		first, _ := s.claim(10)
		second, _ := s.claim(10)
		s.want(fmt.Sprint("both, a first, age ", age), append(first, second...), 4, 8)
		if i, j := slices.Index(append(first, second...), 4), slices.Index(append(first, second...), 8); i > j {
			t.Errorf("age %v: claimed %v and then %v", age, first, second)
		}
	}
}

// TestCursors_Unseen: a writer comes and goes while a page is being read, and is in no list.
func TestCursors_Unseen(t *testing.T) {
	t.Parallel()
	s := newSea(t, 1)
	s.write(3)
	s.claim(10)
	s.claim(10)
	s.draw("slow", 1)
	s.write(5)
	s.during = func() { s.commit("slow") }
	found, _ := s.claim(10)
	s.want("what was visible", found, 5, 6, 7, 8, 9)
	found, _ = s.claim(10)
	s.want("what came meanwhile", found, 4)
}

func TestCursors_Prepared(t *testing.T) {
	t.Parallel()
	s := newSea(t, 1)
	s.write(3)
	s.claim(10)
	s.draw("7/1", 1)
	s.write(3)
	s.claim(10)
	s.claim(10)
	s.open["-1/99"] = s.open["7/1"]
	delete(s.open, "7/1")
	s.write(3)
	s.claim(10)
	s.now = s.now.Add(time.Hour)
	s.claim(10)
	s.claim(10)
	s.commit("-1/99")
	found, _ := s.claim(10)
	s.want("the prepared one", found, 4)
}

func TestCursors_AgainAndEpoch(t *testing.T) {
	t.Parallel()
	s := newSea(t, 2)
	s.write(10)
	s.claim(100)
	s.claim(100)
	s.claim(100)
	s.visible[4], s.visible[5] = 0, 1 // as if they had not been settled
	found, _ := s.claim(100)
	s.want("below the cursor", found)
	found, _ = s.claim(100, 0)
	s.want("lane 0 again", found, 4)
	s.lanes[1].Epoch++
	found, _ = s.claim(100)
	s.want("lane 1 in new hands", found, 5)
}

func TestCursors_OtherServer(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*sea){
		func(s *sea) { s.server = "b" },
		func(s *sea) { s.last = 5 },
	} {
		s := newSea(t, 1)
		s.write(10)
		s.claim(100)
		s.claim(100)
		s.claim(100)
		s.visible[5] = 0 // a position that is drawn for a second time
		change(s)
		found, _ := s.claim(100)
		s.want("every lane from its beginning", found, 5)
	}
}

func TestCursors_LimitCut(t *testing.T) {
	t.Parallel()
	s := newSea(t, 3)
	s.write(300)
	var all []int64
	for range 50 {
		found, _ := s.claim(7)
		if len(found) < 7 && len(all)+len(found) != 300 {
			t.Fatalf("claimed %d, below the limit, after %d of 300", len(found), len(all))
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 300 {
		t.Errorf("claimed %d different ones of 300", len(all))
	}
}

// TestCursors_Chaos: writers of a few keys, each key locked until its writer commits, which
// they do at any time. No row is missed, and none of a key is claimed before an earlier one.
func TestCursors_Chaos(t *testing.T) {
	t.Parallel()
	for seed := range int64(300) {
		s, rnd := newSea(t, 3), rand.New(rand.NewSource(seed))
		var order []int64
		var writers [10]string // by key
		step := func() {
			switch key := rnd.Intn(10); {
			case writers[key] == "":
				writers[key] = fmt.Sprint("3/", s.last)
				s.draw(writers[key], 1)
				s.keys[s.last] = key
			case rnd.Intn(5) == 0 || key > 2: // the first keys' writers stay open for longer
				s.commit(writers[key])
				writers[key] = ""
			}
		}
		for range 400 {
			for range rnd.Intn(6) {
				step()
			}
			s.now = s.now.Add(time.Duration(rnd.Intn(30)) * time.Millisecond)
			s.during = func() {
				for range rnd.Intn(6) {
					step()
				}
			}
			found, _ := s.claim(1 + rnd.Intn(8))
			order = append(order, found...)
		}
		for _, w := range writers {
			s.commit(w)
		}
		for range 2 {
			found, _ := s.claim(10_000)
			order = append(order, found...)
		}
		s.checkOrder(seed, order)
	}
}

func (s *sea) checkOrder(seed int64, order []int64) {
	s.t.Helper()
	newest := make(map[int]int64)
	for _, p := range order {
		if p < newest[s.keys[p]] {
			s.t.Fatalf("seed %d: position %d of key %d after %d", seed, p, s.keys[p], newest[s.keys[p]])
		}
		newest[s.keys[p]] = p
	}
	if len(order) != int(s.last) || len(s.visible) > 0 {
		s.t.Fatalf("seed %d: %d of %d were claimed, %d are left", seed, len(order), s.last, len(s.visible))
	}
}

// TestCursors_Crash: a server that recovers from a crash keeps the time of its start, and may draw again
// the positions that it had not flushed, and more, before it is asked again.
func TestCursors_Crash(t *testing.T) {
	t.Parallel()
	s := newSea(t, 1)
	s.write(10)
	s.claim(100)
	s.write(5)
	s.claim(100) // 11 to 15, which are lost then
	s.claim(100) // from here on the look before says that all of it was drawn
	s.last, s.session = 10, 1
	s.write(10)
	found, _ := s.claim(100)
	s.want("behind the crash", found, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
}

// TestCursors_Sessions: each session of a pool is new once.
func TestCursors_Sessions(t *testing.T) {
	t.Parallel()
	s := newSea(t, 1)
	s.write(10)
	for session := range 2 * maxSessions {
		for _, s.session = range []int{0, session % 3} {
			s.claim(100)
		}
	}
	if _, from := s.claim(100); from != 10 {
		t.Errorf("a claim by a session that is known reads above %d, want 10", from)
	}
	for s.session = range 2 * maxSessions {
		s.claim(100)
	}
	if n := len(s.c.sessions); n > maxSessions {
		t.Errorf("%d sessions are remembered, want %d at most", n, maxSessions)
	}
}

// TestCursors_LastPositions reads what is near the largest position there is: each page goes on where the one before has
// ended.
func TestCursors_LastPositions(t *testing.T) {
	t.Parallel()
	const lanes, backlog, limit = 48, 20_000, 100
	s := newSea(t, lanes)
	s.last = math.MaxInt64 - 1 - backlog
	s.c.begin(s.lanes, nil)
	for n, l := range s.lanes { // all of them have been read, as by a relay that has run for long
		s.c.lanes[l.Number].low = s.last - int64(n)
	}
	s.c.last = s.last
	s.c.server, s.c.sessions[0] = s.server, true
	s.write(backlog)
	s.c.last = s.last
	for read := 0; read < backlog; {
		found, _ := s.claim(limit)
		if len(found) == 0 {
			t.Fatalf("%d rows were read, want all %d", read, backlog)
		}
		read += len(found)
	}
}
