package relaycore

import (
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

const (
	settleBase   = 10 * time.Millisecond // until a settlement is repeated; it doubles
	settleMax    = 2 * time.Second
	refusedDelay = time.Second // until one that the store refuses is tried again; it doubles
	refusedMax   = 30 * time.Second
)

// settler stores outcomes: all that have come together with one call, one call at a time. A call that
// failed is repeated until the store answers: what was published must not be published again because
// a mark could not be made. A call that the store refuses is made again for each half of it, until what
// it refuses is found; that is kept apart and tried again from time to time, and the others go on.
type settler struct {
	waiting []Settlement // for the next call
	kept    []Settlement // until what is in flight before them is answered
	work    [][]Settlement
	running []Settlement // the call that is running
	busy    bool
	after   Time // no call before
	fails   int  // in a row
	tries   attempts
	refused []*refused // in the order in which they came
	groups  map[group]*refused
}

// refused are settlements of one group that the store has refused. What comes for the group waits with
// them.
type refused struct {
	group group
	list  []Settlement // empty while they are tried
	first *Message
	delay time.Duration
	again Time
	tries attempts
}

// group is what is settled together or not at all: the messages of one key, or one without a key.
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

// settle begins the next call, if none is running and there is something to store.
func (c *Core) settle() {
	s := &c.settler
	if s.busy || c.now < s.after {
		return
	}
	if len(s.work) == 0 {
		c.keepBack()
		s.gather(c.now)
	}
	if len(s.work) == 0 {
		return
	}
	s.running, s.work = s.work[0], s.work[1:]
	s.busy = true
	s.tries.begin(c.now)
	c.do(Settle{s.running})
}

// keepBack keeps what comes of a key that fans out while an earlier message of it, which goes to one
// destination only, is in flight: that has no waiting row yet, so that the rows for several destinations
// would be due before it if another relay took over.
func (c *Core) keepBack() {
	s := &c.settler
	s.waiting, s.kept = append(s.kept, s.waiting...), nil
	var kept []group
	for i := range s.waiting {
		if st := &s.waiting[i]; st.Outcome == Fanout && st.Message.Key != "" && c.followsUntried(st) {
			kept = append(kept, groupOf(st.Message))
		}
	}
	if len(kept) == 0 {
		return
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(st Settlement) bool {
		keeps := slices.Contains(kept, groupOf(st.Message))
		if keeps {
			s.kept = append(s.kept, st)
		}
		return keeps
	})
}

// followsUntried reports whether a message of the same key that never waited is in flight to one of the
// destinations.
func (c *Core) followsUntried(st *Settlement) (yes bool) {
	st.closes(func(u unit) { yes = yes || c.untriedFlies(u) })
	return yes
}

// untriedFlies reports whether a message of a unit is in flight that never waited.
func (c *Core) untriedFlies(u unit) bool {
	l := c.lines[u]
	if l == nil || l.sent == 0 {
		return false
	}
	return slices.ContainsFunc(l.in.dest.batches, func(b *Batch) bool {
		return slices.ContainsFunc(b.Messages, func(m *Message) bool { return !m.Waiting && unitOf(m) == u })
	})
}

// gather makes a call of what has come together, without what belongs to groups that were refused, and
// one of what was refused before and is to be tried again.
func (s *settler) gather(now Time) {
	free := s.waiting
	s.waiting = nil
	if len(s.groups) > 0 {
		free = slices.DeleteFunc(free, func(st Settlement) bool {
			r := s.groups[groupOf(st.Message)]
			if r != nil {
				r.list = append(r.list, st)
			}
			return r != nil
		})
	}
	var again []Settlement
	for _, r := range s.refused {
		if len(r.list) > 0 && now >= r.again {
			again = append(again, r.list...)
			r.list, r.again = nil, now+r.delay
		}
	}
	for _, list := range [][]Settlement{free, again} {
		if len(list) > 0 {
			s.work = append(s.work, list)
		}
	}
}

// refusedCount returns how many settlements the store refuses.
func (s *settler) refusedCount() (n int) {
	for _, r := range s.refused {
		n += len(r.list)
	}
	return n
}

// next returns when a call may follow by itself.
func (s *settler) next(now Time) Time {
	next := never
	if s.busy {
		return next
	}
	if len(s.work) > 0 || len(s.waiting) > 0 {
		return max(s.after, now)
	}
	for _, r := range s.refused {
		if len(r.list) > 0 {
			next = min(next, max(r.again, s.after))
		}
	}
	return next
}

func (e Settled) apply(c *Core) {
	s := &c.settler
	list := s.running
	s.busy, s.running, s.fails = false, nil, 0
	s.tries.end(nil)
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

// accept ends the refusal of groups that were settled. What has come for them meanwhile is free.
func (s *settler) accept(list []Settlement) {
	if len(s.groups) == 0 {
		return
	}
	for i := range list {
		delete(s.groups, groupOf(list[i].Message))
	}
	s.refused = slices.DeleteFunc(s.refused, func(r *refused) bool {
		gone := s.groups[r.group] == nil
		if gone {
			s.waiting = append(s.waiting, r.list...)
		}
		return gone
	})
}

// lose forgets lanes that a settlement has found to belong to others, and returns them.
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

// expectAfter notes when an outcome will have made waiting messages due: the message itself, or what
// has waited behind it.
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
	s.busy, s.running = false, nil
	c.report(Report{What: SettleFails, Count: len(list), Err: e.Err})
	if !e.Refused {
		s.tries.end(e.Err)
		if age, due := s.tries.overdue(c.now); due {
			c.report(Report{What: SettleStalls, Count: len(list), Delay: age, Err: e.Err})
		}
		s.work = slices.Insert(s.work, 0, list)
		s.after = c.now + backoff(settleBase, s.fails, settleMax)
		s.fails++
		return
	}
	s.tries.end(nil) // the store could be asked
	if groups := groupsOf(list); len(groups) > 1 {
		half := len(groups) / 2
		s.work = slices.Insert(s.work, 0, slices.Concat(groups[:half]...), slices.Concat(groups[half:]...))
		return
	}
	if age, due := s.refuse(list, e.Err, c.now); due {
		c.report(Report{What: SettleStalls, Count: len(list), Delay: age, Err: e.Err})
	}
}

// refuse keeps a group that was refused until it is to be tried again. It returns for how long that has
// been so, and whether it is time to say it.
func (s *settler) refuse(list []Settlement, err error, now Time) (age time.Duration, due bool) {
	g := groupOf(list[0].Message)
	r := s.groups[g]
	if r == nil {
		r = &refused{group: g, first: list[0].Message, delay: refusedDelay}
		s.groups[g] = r
		s.refused = append(s.refused, r)
	}
	r.tries.begin(now)
	r.tries.end(err)
	r.list, r.again = append(list, r.list...), now+r.delay
	r.delay = min(2*r.delay, refusedMax)
	return r.tries.overdue(now)
}
