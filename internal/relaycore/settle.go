package relaycore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

const (
	settleBase   = 10 * time.Millisecond // until a settlement is repeated; it doubles
	settleMax    = 2 * time.Second
	refusedDelay = time.Second // until a refused one is retried; it doubles
	refusedMax   = 30 * time.Second
)

// settler stores outcomes: all that have accumulated in one call, one call at a time. A failed call is
// repeated until the store answers: a published message must not be published again because its outcome
// could not be stored. A call that the store refuses is repeated for each half of it, until the refused
// settlements are found; these are kept apart and retried from time to time, and the others continue.
type settler struct {
	waiting []Settlement   // for the next call
	work    [][]Settlement // the next calls
	running []Settlement   // the running call; nil if there is none
	tries   attempts
	apart   map[group]*apart
}

// apart are settlements of one group that wait: the store has refused one of them, or an earlier message is in
// flight. Later settlements of the group wait with them.
type apart struct {
	list  []Settlement // empty while they are tried
	first *Message
	tries attempts
}

// group is a set of messages that are settled together or not at all: those of one key, or one without a key.
type group struct {
	topic, key string
	position   int64 // of a message without a key
}

func groupOf(m *Message) group {
	if m.Key == "" {
		return group{position: m.Position}
	}
	return group{topic: m.Topic, key: m.Key}
}

// groupsOf sorts settlements by group. Those of one group keep their order.
func groupsOf(list []Settlement) [][]Settlement {
	var groups [][]Settlement
	at := make(map[group]int)
	for _, st := range list {
		g := groupOf(st.Message)
		i, known := at[g]
		if !known {
			i = len(groups)
			at[g], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], st)
	}
	return groups
}

// settle starts the next call, if none is running and there is something to store.
func (c *Core) settle() {
	s := &c.settler
	if len(s.running) > 0 || c.before(s.tries.until) {
		return
	}
	if len(s.work) == 0 {
		c.gather()
	}
	if len(s.work) == 0 {
		return
	}
	s.running, s.work = s.work[0], s.work[1:]
	s.tries.begin(c.now)
	c.do(Settle{s.running})
}

// keepApart keeps the settlements for the group of a message apart.
func (s *settler) keepApart(m *Message) *apart {
	g := groupOf(m)
	if s.apart[g] == nil {
		s.apart[g] = &apart{first: m}
	}
	return s.apart[g]
}

// fansOutEarly reports whether a message gets a row for each destination while an earlier one of its key, which
// never waited, is in flight to one of them. The earlier one has no waiting row yet: if another relay took over
// the lane, the rows of the later one would be due before it.
func (c *Core) fansOutEarly(st Settlement) bool {
	return st.Outcome == Fanout && slices.ContainsFunc(st.closes(), func(u unit) bool {
		l := c.lines[u]
		return l != nil && l.triesFirst()
	})
}

// gather creates a call of the accumulated settlements, without those of groups kept apart, and one of
// settlements kept apart that may be retried now.
func (c *Core) gather() {
	s := &c.settler
	free := s.waiting
	s.waiting = nil
	for i := range free {
		if c.fansOutEarly(free[i]) {
			s.keepApart(free[i].Message)
		}
	}
	if len(s.apart) > 0 {
		free = slices.DeleteFunc(free, func(st Settlement) bool {
			r := s.apart[groupOf(st.Message)]
			if r != nil {
				r.list = append(r.list, st)
			}
			return r != nil
		})
	}
	var again []Settlement
	for _, r := range s.allApart() {
		if len(r.list) > 0 && !c.before(r.tries.until) && !slices.ContainsFunc(r.list, c.fansOutEarly) {
			again = append(again, r.list...)
			r.list = nil
		}
	}
	for _, list := range [][]Settlement{free, again} {
		if len(list) > 0 {
			s.work = append(s.work, list)
		}
	}
}

// each calls do for the message of each outcome that is not stored.
func (s *settler) each(do func(*Message)) {
	lists := append(s.work, s.waiting, s.running)
	for _, r := range s.apart {
		lists = append(lists, r.list)
	}
	for _, list := range lists {
		for i := range list {
			do(list[i].Message)
		}
	}
}

// allApart returns the groups kept apart, by position.
func (s *settler) allApart() []*apart {
	if len(s.apart) == 0 {
		return nil // almost always
	}
	return slices.SortedFunc(maps.Values(s.apart), func(a, b *apart) int { return cmp.Compare(a.first.Position, b.first.Position) })
}

// apartCount returns how many settlements are kept apart.
func (s *settler) apartCount() (n int) {
	for _, r := range s.apart {
		n += len(r.list)
	}
	return n
}

func (e Settled) apply(c *Core) {
	s := &c.settler
	list := s.running
	s.running = nil
	s.tries.succeed(c.now)
	s.accept(list)
	c.report(Report{What: SettledNow, Count: len(list), Took: e.Took})
	lost := c.lose(list, e.Lost)
	for i := range list {
		st := &list[i]
		c.held.release(st.Message)
		c.openAfter(st)
		if d := c.byName[st.Message.Dest]; d != nil && st.Outcome != Wait && st.Outcome != Schedule {
			delete(d.past, st.Message.Position)
		}
		if !slices.Contains(lost, st.Message.Lane) {
			c.expectAfter(st)
			c.reportOutcome(st)
		}
	}
	if len(lost) > 0 { // a lane may have waited for them
		c.read.news = true
	}
}

// accept removes settled groups from those kept apart. Settlements that came for them in the meantime are freed.
func (s *settler) accept(list []Settlement) {
	for i := 0; i < len(list) && len(s.apart) > 0; i++ {
		g := groupOf(list[i].Message)
		if r := s.apart[g]; r != nil {
			s.waiting = append(s.waiting, r.list...)
			delete(s.apart, g)
		}
	}
}

// lose forgets lanes that turned out in a settlement to belong to others, and returns them.
func (c *Core) lose(list []Settlement, numbers []int) (lost []Lane) {
	if len(numbers) == 0 {
		return nil
	}
	for i := range list {
		if l := list[i].Message.Lane; slices.Contains(numbers, l.Number) && !slices.Contains(lost, l) {
			lost = append(lost, l)
		}
	}
	c.lease.lanes = slices.DeleteFunc(c.lease.lanes, func(st *laneState) bool { return slices.Contains(lost, st.Lane) })
	c.drop(func(l Lane) bool { return slices.Contains(lost, l) })
	c.report(Report{What: LeaseLost, Count: len(lost), Err: waybill.ErrLeaseLost})
	return lost
}

// expectAfter records when an outcome makes waiting messages due: the message itself, or those that
// have waited behind it.
func (c *Core) expectAfter(st *Settlement) {
	switch {
	case st.Outcome == Wait && st.Behind:
	case st.Outcome == Published && len(st.To) == 0 && (!st.Message.Waiting || st.Message.Key == ""):
	case st.Outcome == Wait:
		c.expect(st.After)
	case st.Outcome == Schedule:
		c.expect(st.Message.DelayFor)
	default:
		c.expect(0)
	}
}

func (c *Core) reportOutcome(st *Settlement) {
	r := Report{Dest: st.Message.Dest, Topic: st.Message.Topic, Err: st.Err, Settlement: st}
	switch {
	case st.Outcome == Wait && st.Err != nil:
		r.What = Retried
		c.stats.Retried++
	case st.Outcome == DeadLetter:
		r.What = Dead
		c.stats.Dead++
	case st.Outcome == FailedLetter:
		r.What = Failed
		c.stats.Dead++
	default:
		return
	}
	c.report(r)
}

func (e SettleFailed) apply(c *Core) {
	s := &c.settler
	list := s.running
	s.running = nil
	c.report(Report{What: SettleFails, Count: len(list), Err: e.Err})
	if !e.Refused {
		s.tries.fail(c.now, e.Err, settleBase, settleMax)
		if age, due := s.tries.overdue(c.now); due {
			c.report(Report{What: SettleStalls, Count: len(list), Delay: age, Err: e.Err})
		}
		s.work = slices.Insert(s.work, 0, list)
		return
	}
	s.tries.succeed(c.now) // the store was reachable
	if groups := groupsOf(list); len(groups) > 1 {
		half := len(groups) / 2
		s.work = slices.Insert(s.work, 0, slices.Concat(groups[:half]...), slices.Concat(groups[half:]...))
		return
	}
	if age, due := s.refuse(list, e.Err, c.now); due {
		c.report(Report{What: SettleStalls, Count: len(list), Delay: age, Err: e.Err})
	}
}

// refuse keeps a refused group apart until it is retried. It returns how long it has been refused, and
// whether to report that now.
func (s *settler) refuse(list []Settlement, err error, now Time) (age time.Duration, due bool) {
	r := s.keepApart(list[0].Message)
	r.list = append(list, r.list...)
	r.tries.fail(now, err, refusedDelay, refusedMax)
	return r.tries.overdue(now)
}
