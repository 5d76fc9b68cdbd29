package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
)

// closes returns the units of which nothing may be sent before the outcome is written down.
func (st *Settlement) closes() []unit {
	c := st.Claim
	if c.Message.Key == "" || st.Alone {
		return nil
	}
	switch st.Outcome {
	case Wait, Dead, Failed:
		return []unit{unitOf(c)}
	case Fanout:
		units := make([]unit, len(st.Destinations))
		for i, d := range st.Destinations {
			units[i] = unit{d, c.Message.Address(), c.Message.Key}
		}
		return units
	}
	return nil
}

// blocks reports whether later messages of those units follow this one to the waiting rows.
func (st *Settlement) blocks() bool {
	return st.Claim.Message.Key != "" && (st.Outcome == Wait && !st.Alone || st.Outcome == Fanout || st.Park)
}

// conclude turns a result into an outcome to be written down. It returns false if the message
// stays where it is because the destination is unavailable.
func (r *Relay) conclude(res result) bool {
	st, ok := r.policy.settle(res)
	if !ok {
		return false
	}
	if o := r.outlets[st.Claim.Destination]; o != nil && (st.Outcome == Dead || st.Outcome == Failed) {
		o.dropDoubt(st.Claim)
	}
	r.settleLater(st)
	return true
}

// settleLater leaves an outcome to the settler and closes the lines concerned.
func (r *Relay) settleLater(st Settlement) {
	r.unsettled = append(r.unsettled, st)
	for _, u := range st.closes() {
		o := r.outlets[u.destination]
		if o == nil {
			continue // waits for a configuration that knows its destination
		}
		l := r.backlog.line(u, o.gateFor(u.topic))
		if st.blocks() {
			l.waits++
		}
		if st.Behind {
			continue // what is before it may go
		}
		l.closed++
		if st.blocks() {
			for _, c := range l.take(len(l.queue)) {
				r.moveBehind(c)
			}
		}
	}
	r.settling.ring()
}

// settleRound writes down what has come together since the last round, and what was refused
// before and is to be tried again.
func (r *Relay) settleRound(ctx context.Context) error {
	r.awaitOutcomes(ctx)
	if err := r.settle(ctx, [][]Settlement{r.refused.sort(r.takeUnsettled())}); err != nil {
		return err
	}
	return r.settle(ctx, r.refused.due())
}

// awaitOutcomes waits for outcomes, or until one that was refused is to be tried again.
func (r *Relay) awaitOutcomes(ctx context.Context) {
	if wait, some := r.refused.next(); some {
		limit, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		ctx = limit
	}
	r.settling.wait(ctx)
}

func (r *Relay) takeUnsettled() []Settlement {
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	list := r.unsettled
	r.unsettled = nil
	return list
}

func (r *Relay) leaveUnsettled(list []Settlement) {
	if len(list) == 0 {
		return
	}
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	r.unsettled = append(list, r.unsettled...)
	r.settling.ring()
}

// settle stores lists of settlements, all with one call if the store takes them. It repeats a call
// for as long as ctx allows while the store cannot be asked: what was published must not be
// published again because a mark could not be made. A call that the store refuses is made again
// for each half of its groups, until the group that is refused by itself is found; that is put aside.
func (r *Relay) settle(ctx context.Context, lists [][]Settlement) error {
	work := [][][]Settlement{lists}
	defer func() { // after a panic, or the end
		for _, left := range slices.Backward(work) {
			r.leaveUnsettled(slices.Concat(left...))
		}
	}()
	for failures := 0; len(work) > 0; {
		batch := work[0]
		list := slices.Concat(batch...)
		lost, err := r.settleOnce(ctx, list)
		switch {
		case err == nil:
			work, failures = work[1:], 0
			r.refused.remove(list)
			r.settled(ctx, list, lost)
		case ctx.Err() != nil:
			return err
		case !refusesRows(err):
			loop.Sleep(ctx, min(10*time.Millisecond<<min(failures, 8), 2*time.Second))
			failures++
		case len(groupsOf(list)) > 1:
			groups := groupsOf(list)
			half := len(groups) / 2
			work = slices.Concat([][][]Settlement{groups[:half], groups[half:]}, work[1:])
		default:
			work = work[1:]
			if age, due := r.refused.add(list, err); due {
				r.settleFails(ctx, len(list), age, err)
			}
		}
	}
	return nil
}

// settleOnce makes one call, and returns the lanes that were lost.
func (r *Relay) settleOnce(ctx context.Context, list []Settlement) (lost map[Lane]bool, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	req := SettleRequest{Node: r.cfg.Node, Archive: r.cfg.Retention != KeepNothing, Settlements: list}
	r.settles.begin()
	began := time.Now()
	numbers, err := r.src.SettleMessages(ctx, req)
	if err == nil || refusesRows(err) {
		r.settles.end(nil) // the store could be asked
	} else {
		r.settles.end(err)
	}
	if err == nil {
		r.observe(ctx, waybill.Event{Op: waybill.OpSettle, Count: len(list), Duration: time.Since(began)})
		return r.dropLost(ctx, list, numbers), nil
	}
	if ctx.Err() == nil {
		r.failed(err)
		r.observe(ctx, waybill.Event{Op: waybill.OpSettle, Count: len(list), Err: err})
		if age, due := r.settles.overdue(); due {
			r.settleFails(ctx, len(list), age, err)
		}
	}
	return nil, fmt.Errorf("settle %d messages: %w", len(list), err)
}

// settleFails says that what became of n messages could not be stored for long.
func (r *Relay) settleFails(ctx context.Context, n int, age time.Duration, err error) {
	r.observe(ctx, waybill.Event{Op: waybill.OpLoop, Name: r.settler.Name, Loop: r.settler.Kind,
		Err: fmt.Errorf("settling %d messages has failed for %v: %w", n, age.Truncate(time.Second), err)})
}

// dropLost forgets lanes that a settlement has found to have changed hands.
func (r *Relay) dropLost(ctx context.Context, list []Settlement, numbers []int) map[Lane]bool {
	if len(numbers) == 0 {
		return nil
	}
	lost := make(map[Lane]bool, len(numbers))
	for i := range list {
		if l := list[i].Claim.Lane; slices.Contains(numbers, l.Number) {
			lost[l] = true
		}
	}
	r.lanes.drop(lost)
	r.backlog.drop(func(l Lane) bool { return lost[l] })
	r.observe(ctx, waybill.Event{Op: waybill.OpLeaseLost, Count: len(lost), Err: waybill.ErrLeaseLost})
	return lost
}

// settled releases what was written down, and reports the outcomes that hold: those of lanes
// that were not lost.
func (r *Relay) settled(ctx context.Context, list []Settlement, lost map[Lane]bool) {
	if len(list) == 0 {
		return
	}
	r.backlog.mu.Lock()
	for i := range list {
		r.backlog.release(list[i].Claim)
		r.openAfter(&list[i])
	}
	r.backlog.mu.Unlock()
	for i := range list {
		if st := &list[i]; !lost[st.Claim.Lane] {
			r.expect(st)
			r.reportOutcome(ctx, st)
		}
	}
	r.dispatch()
	r.room.ring()
	if len(lost) > 0 { // a lane may have waited for them
		r.news.ring()
	}
}

// openAfter opens the lines that an outcome had closed. Behind one that waits they open
// only when no claim is under way any more that may not have seen it.
func (r *Relay) openAfter(st *Settlement) {
	for _, u := range st.closes() {
		l := r.backlog.lines[u]
		if l == nil {
			continue
		}
		if !st.Behind {
			l.closed--
		}
		switch {
		case !st.blocks():
		case r.backlog.claiming != nil:
			r.backlog.reopen = append(r.backlog.reopen, l)
		default:
			l.waits--
		}
		l.enlist()
		r.backlog.tidy(l)
	}
}

// expect notes when an outcome will have made waiting messages due: the message itself, or
// what has waited behind it.
func (r *Relay) expect(st *Settlement) {
	var after time.Duration
	switch {
	case st.Outcome == Wait && st.Behind:
		return
	case st.Outcome == Published && len(st.Destinations) == 0 && (!st.Claim.Waiting || st.Claim.Message.Key == ""):
		return
	case st.Outcome == Wait:
		after = st.After
	case st.Outcome == Schedule:
		after = st.Claim.DelayFor
	}
	if r.due.in(after) {
		r.news.ring()
	}
}

func (r *Relay) reportOutcome(ctx context.Context, st *Settlement) {
	retry := st.Outcome == Wait && !st.Behind && st.Error != ""
	if !retry && st.Outcome != Dead && st.Outcome != Failed {
		return
	}
	m := &st.Claim.Message
	e := waybill.Event{
		Destination: st.Claim.Destination, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1,
		Attempt: st.Attempts, Delay: st.After, Reason: st.Reason, Err: st.cause,
	}
	switch {
	case retry:
		e.Op = waybill.OpRetry
		r.totals.add(func(s *Status) { s.Retried++ })
	case st.Outcome == Failed:
		e.Op = waybill.OpFailed
		r.totals.add(func(s *Status) { s.Dead++ })
	default:
		e.Op = waybill.OpDead
		r.totals.add(func(s *Status) { s.Dead++ })
	}
	r.failed(e.Err)
	r.observe(ctx, e)
}

func (r *Relay) failed(err error) {
	r.totals.add(func(s *Status) { s.LastError, s.LastErrorAt = waybill.ErrorText(err), time.Now() })
}
