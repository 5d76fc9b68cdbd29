package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// system is a small system of which every interleaving is explored: plain data, in which a choice leads
// to the next state.
type system struct {
	now    relaycore.Time
	store  *store
	ledger *ledger
	relays []*relay
	news   []bool // by relay: something was committed since its latest claim
	coming []row  // messages that are not enqueued yet
	moves  int    // of the clock before the last message is committed
	faults int    // that may still happen
	small  *small
	broken error // a promise
}

// small is the configuration of a system; it does not change.
type small struct {
	name     string
	relays   int
	lanes    int
	keys     []string // of the messages, in the order in which they are enqueued
	later    int      // how many of them are enqueued in the course of the run
	dests    []string
	strict   bool
	batch    int
	order    relaycore.Order
	faults   int
	moves    int // of the clock before the last message is committed
	attempts int // retries of a message
	stops    bool
}

// relay is one relay: a core, and its calls.
type relay struct {
	at     int // its place among the relays
	name   string
	print  print128 // of everything here
	core   *relaycore.Core
	began  relaycore.Time
	read   cursors
	gone   bool           // it has crashed or stopped: what was in flight may still arrive
	paused bool           // it is paused
	since  relaycore.Time // it is gone or paused
	again  bool           // it is yet to be started again
	calls  []*call

	awaits bool // it waits for something new,
	until  relaycore.Time
	ended  bool // and should stop waiting
}

// call is a call to the store or the broker.
type call struct {
	cmd    relaycore.Command
	answer relaycore.Event // nil until it has arrived and taken effect
	at     relaycore.Time  // of an answer that takes its time
}

const (
	exploredTTL   = 4 * time.Second
	exploredRenew = 2 * time.Second
	exploredWait  = time.Second      // for an answer of the broker
	operatedBy    = 20 * time.Second // dead letters that park others are resolved by then
	drainedBy     = 2 * time.Minute
)

// config returns the settings of the relays.
func (p *small) config() relaycore.Config {
	retry, _ := backoff.WithDefaults(waybill.RetryPolicy{MaxRetries: p.attempts, DisableJitter: true})
	cfg := relaycore.Config{
		BatchSize: p.batch, Parallel: 2, Strict: p.strict, Retry: retry, Order: p.order, MaxParked: 100, MaxParkedKeys: 100,
		LeaseTTL: exploredTTL, RenewInterval: exploredRenew, PublishTimeout: exploredWait, PollInterval: 5 * time.Second,
		CallTimeout: exploredTTL,
	}
	for _, d := range p.dests {
		cfg.Dests = append(cfg.Dests, relaycore.Dest{Name: d})
	}
	return cfg
}

// newSystem returns the first state of a small system.
func newSystem(p *small) *system {
	cfg := p.config()
	s := &system{store: newStore(p.lanes), ledger: newLedger(&cfg), faults: p.faults, small: p}
	for i, key := range p.keys {
		r := row{id: fmt.Sprint("m", i), topic: "t", tenant: "x", key: key}
		if key != "" {
			r.lane = int(key[0]) % p.lanes
		}
		s.coming = append(s.coming, r)
	}
	if p.lanes == 1 { // all messages are there before any relay starts
		s.enqueueFirst()
	}
	s.begin("r0")
	s.effect(s.relays[0], s.relays[0].calls[0]) // one of them is the first to join
	for i := range p.relays - 1 {
		s.begin(fmt.Sprint("r", i+1))
	}
	for !s.shared() {
		s.goOn()
	}
	if s.moves = 0; p.lanes > 1 {
		s.enqueueFirst()
	}
	return s
}

// enqueueFirst enqueues the messages that do not come in the course of the run.
func (s *system) enqueueFirst() {
	for len(s.coming) > s.small.later {
		s.enqueue(false)
	}
}

// shared reports whether the lanes are distributed, if there are several, and all relays wait for
// messages.
func (s *system) shared() bool {
	if s.small.lanes == 1 {
		return true
	}
	owners := make(map[string]bool)
	for _, l := range s.store.lanes {
		owners[l.owner] = true
	}
	busy := func(r *relay) bool { return !r.awaits || len(r.calls) > 0 }
	return !owners[""] && len(owners) == min(len(s.relays), s.small.lanes) && !slices.ContainsFunc(s.relays, busy)
}

// goOn makes everything happen that can, in one order, and then time pass.
func (s *system) goOn() {
	for i, r := range s.relays {
		for len(r.calls) > 0 {
			c := r.calls[0]
			s.effect(r, c)
			s.answer(r, c, c.answer)
		}
		if r.awaits && s.woken(r) {
			s.wakeUp(i)
			return
		}
		if s.ticks(r) {
			s.step(r, relaycore.Tick{})
			return
		}
	}
	s.pass()
}

// wakeUp ends the wait of a relay.
func (s *system) wakeUp(i int) {
	r := s.relays[i]
	r.awaits, s.news[i] = false, false
	s.step(r, relaycore.Woken{})
}

// ticks reports whether a relay must be notified that time has passed.
func (s *system) ticks(r *relay) bool {
	n := r.core.Next()
	return n < never/2 && r.began+n <= s.now
}

// begin starts a relay.
func (s *system) begin(name string) {
	r := &relay{at: len(s.relays), name: name, core: relaycore.New(s.small.config()), began: s.now, read: make(cursors)}
	s.relays, s.news = append(s.relays, r), append(s.news, false)
	s.step(r, relaycore.Tick{})
}

// step gives an event to a relay and takes its commands.
func (s *system) step(r *relay, e relaycore.Event) {
	if r.gone {
		return
	}
	for _, cmd := range slices.Clone(r.core.Step(s.now-r.began, e)) {
		switch cmd := cmd.(type) {
		case relaycore.Report:
		case relaycore.Release: // nothing is scheduled
			s.step(r, relaycore.Released{})
		case relaycore.Count:
			s.step(r, relaycore.Counted{})
		case relaycore.Await:
			r.awaits, r.ended, r.until = true, false, r.began+cmd.Until
		case relaycore.EndAwait:
			r.ended = true
		case relaycore.Cut:
			s.cut(r, cmd.Batch)
		case relaycore.Settle:
			cmd.Settlements = slices.Clone(cmd.Settlements)
			r.calls = append(r.calls, &call{cmd: cmd})
		default:
			r.calls = append(r.calls, &call{cmd: cmd})
		}
	}
}

// leave ends a relay that has stopped; another is started in its place.
func (s *system) leave(r *relay) {
	r.gone, r.again, r.calls, r.since = true, true, nil, s.now
	s.store.leave(r.name)
}

// cut ends the wait for a batch.
func (s *system) cut(r *relay, b *relaycore.Batch) {
	for _, c := range r.calls {
		if p, ok := c.cmd.(relaycore.Publish); ok && p.Batch == b {
			c.answer, c.at = relaycore.Answered{Batch: b, Results: all(b, unsure)}, s.now
		}
	}
}

// all returns one result for all messages of a batch.
func all(b *relaycore.Batch, r relaycore.Result) []relaycore.Result {
	return slices.Repeat([]relaycore.Result{r}, len(b.Messages))
}

// waits reports whether a relay that has nothing in flight waits for time to pass.
func (s *system) waits(r *relay) bool {
	if r.gone || r.paused {
		return !s.over(r) || r.gone && !r.again
	}
	for _, c := range r.calls {
		if c.answer == nil || c.at <= s.now {
			return false
		}
	}
	return !r.core.Done() && !s.woken(r) && s.next(r) > s.now
}

// over reports whether the lease of a relay that is gone or paused has ended.
func (s *system) over(r *relay) bool { return s.now >= r.since+exploredTTL }

// woken reports whether the wait of a relay ends.
func (s *system) woken(r *relay) bool {
	return r.awaits && (r.ended || s.news[r.at] || r.until <= s.now)
}

// next returns the time of the next event of a relay without a cause from outside.
func (s *system) next(r *relay) relaycore.Time {
	if r.gone && !r.again {
		return never
	}
	if r.gone || r.paused {
		return r.since + exploredTTL
	}
	next := never
	if n := r.core.Next(); n < never/2 {
		next = r.began + n
	}
	if r.awaits {
		next = min(next, r.until)
	}
	for _, c := range r.calls {
		if c.answer != nil && c.at > s.now {
			next = min(next, c.at)
		}
	}
	return next
}

// drained reports whether everything is done.
func (s *system) drained() bool { return len(s.coming) == 0 && s.store.left() == 0 }

// effect executes a call, and answers it.
func (s *system) effect(r *relay, c *call) {
	switch cmd := c.cmd.(type) {
	case relaycore.Renew:
		c.answer = s.store.renew(r.name, cmd, exploredTTL, s.now)
	case relaycore.Claim:
		s.news[r.at] = false
		c.answer = s.store.claim(cmd, r.read, s.now, s.small.dests, nil)
	case relaycore.Settle:
		s.check(s.ledger.settle(cmd.Settlements))
		c.answer = relaycore.Settled{Lost: s.store.settle(r.name, cmd.Settlements, s.now)}
	case relaycore.Publish:
		s.arrive(cmd.Batch, len(cmd.Batch.Messages))
		c.answer = relaycore.Answered{Batch: cmd.Batch, Window: time.Minute}
	}
}

// arrive stores the first n messages of a batch at the broker.
func (s *system) arrive(b *relaycore.Batch, n int) {
	for i := range n {
		s.check(s.ledger.store(s.store, b, i, s.now))
	}
}

func (s *system) check(err error) {
	if s.broken == nil {
		s.broken = err
	}
}

// failed returns the answer to a call that has failed.
func (s *system) failed(r *relay, c *call) relaycore.Event {
	switch cmd := c.cmd.(type) {
	case relaycore.Renew:
		return relaycore.LeaseFailed{Err: errAway}
	case relaycore.Claim:
		clear(r.read)
		return relaycore.ClaimFailed{Err: errAway}
	case relaycore.Settle:
		return relaycore.SettleFailed{Err: errAway}
	case relaycore.Publish:
		return relaycore.Answered{Batch: cmd.Batch, Results: all(cmd.Batch, lostUnsure)}
	}
	return nil
}

// lostUnsure is the result of a message on a connection that has ended.
var lostUnsure = relaycore.Result{Err: errAway, Kind: waybill.Unavailable, Lost: true, Unsure: true}
