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

// settleRound writes down what has come together since the last round.
func (r *Relay) settleRound(ctx context.Context) error {
	r.settling.wait(ctx)
	list := r.takeUnsettled()
	if len(list) == 0 {
		return nil
	}
	settled := false
	defer func() {
		if !settled { // a panic, or the end
			r.leaveUnsettled(list)
		}
	}()
	lost, err := r.settle(ctx, list)
	if err != nil {
		return err
	}
	settled = true
	r.settled(ctx, list, lost)
	return nil
}

func (r *Relay) takeUnsettled() []Settlement {
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	list := r.unsettled
	r.unsettled = nil
	return list
}

func (r *Relay) leaveUnsettled(list []Settlement) {
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	r.unsettled = append(list, r.unsettled...)
	r.settling.ring()
}

// settle repeats a settlement that fails for as long as ctx allows: what was published must
// not be published again because a mark could not be made.
func (r *Relay) settle(ctx context.Context, list []Settlement) (lost map[Lane]bool, err error) {
	req := SettleRequest{Node: r.cfg.Node, Archive: r.cfg.Retention != KeepNothing, Settlements: list}
	minutes := 0 // of failures that were told
	r.settles.begin()
	for failures := 0; ; failures++ {
		began := time.Now()
		numbers, err := r.src.SettleMessages(ctx, req)
		r.settles.end(err)
		if err == nil {
			r.observe(ctx, waybill.Event{Op: waybill.OpSettle, Count: len(list), Duration: time.Since(began)})
			return r.dropLost(ctx, list, numbers), nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("settle %d messages: %w", len(list), err)
		}
		r.failed(err)
		r.observe(ctx, waybill.Event{Op: waybill.OpSettle, Count: len(list), Err: err})
		if age, _ := r.settles.failing(); int(age.Minutes()) > minutes {
			minutes = int(age.Minutes())
			r.observe(ctx, waybill.Event{Op: waybill.OpLoop, Name: r.settler.Name, Loop: r.settler.Kind,
				Err: fmt.Errorf("settling %d messages has failed for %v: %w", len(list), age.Truncate(time.Second), err)})
		}
		loop.Sleep(ctx, min(10*time.Millisecond<<min(failures, 8), 2*time.Second))
	}
}

// settlesFailing returns a [*waybill.StalledError] if settlements have failed for too long.
func (r *Relay) settlesFailing() error {
	if age, err := r.settles.failing(); err != nil && age > r.cfg.callTimeout() {
		return &waybill.StalledError{Loop: r.settler.Name, Age: age, Err: err}
	}
	return nil
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
