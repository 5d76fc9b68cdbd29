package relay

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-go/waybill/internal/recording"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// run is one run of a relay. Its core makes all decisions; it belongs to the goroutine that calls own, the
// owner, and so do the fields below it. Workers carry out commands of the core, each in a separate
// goroutine, and send back events. The owner calls no user code.
type run struct {
	*Relay
	reading context.Context // ends at once when the relay is to stop
	work    context.Context // outlives that by the grace period
	began   time.Time
	before  relaycore.Stats // of earlier runs
	workers sync.WaitGroup

	leases  chan relaycore.Event // results of renewals
	events  chan relaycore.Event // everything else
	asked   chan func()
	reports chan []relaycore.Report
	over    chan struct{} // closed when the core is no longer used

	core     *relaycore.Core
	timer    *time.Timer
	untold   []relaycore.Report
	endAwait context.CancelFunc
	sent     map[string]chan struct{} // by destination: closed when the latest batch was passed to the publisher
	recorder *recording.Writer        // nil if the run is not recorded
}

func (r *Relay) newRun(reading, work context.Context) *run {
	made := &run{
		Relay: r, reading: reading, work: work, began: time.Now(), core: relaycore.New(r.coreConfig()),
		leases: make(chan relaycore.Event), events: make(chan relaycore.Event), asked: make(chan func()), reports: make(chan []relaycore.Report), over: make(chan struct{}),
		sent: make(map[string]chan struct{}),
	}
	if last := r.latest.Load(); last != nil {
		made.before = last.totals(last.core.Stats())
	}
	return made
}

// totals adds the figures of earlier runs.
func (r *run) totals(s relaycore.Stats) relaycore.Stats {
	s.Published += r.before.Published
	s.Retried += r.before.Retried
	s.Dead += r.before.Dead
	return s
}

// maxUntold is the number of reports that may wait for the observer. Each may hold a batch.
const maxUntold = 100

// own passes events to the core, one after the other, until nothing is in flight after the stop, or the grace
// period has ended. What is still claimed then remains in the store. While too many reports wait for the
// observer only the lease is renewed: what is in flight cannot grow, and so memory is bounded.
func (r *run) own(stop <-chan struct{}) {
	r.timer = time.NewTimer(0) // the first step is a tick
	defer r.timer.Stop()
	var grace <-chan time.Time
	for over := false; !over && !r.core.Done(); {
		events, reports := r.events, r.reports
		if len(r.untold) == 0 {
			reports = nil
		} else if len(r.untold) >= maxUntold {
			events = nil
		}
		select {
		case e := <-r.leases:
			r.step(e)
		case e := <-events:
			r.step(e)
		case <-r.timer.C:
			r.step(relaycore.Tick{})
		case answer := <-r.asked:
			answer()
		case reports <- r.untold:
			r.untold = nil
		case <-stop:
			stop, grace = nil, time.After(r.cfg.ShutdownGrace)
			r.step(relaycore.Stop{})
		case <-grace:
			over = true
		}
	}
	close(r.over)
}

// step passes an event to the core, starts the resulting commands, and keeps its reports.
func (r *run) step(e relaycore.Event) {
	now := time.Since(r.began)
	r.recorder.Before(now, e)
	commands := r.core.Step(now, e)
	for _, cmd := range commands {
		if report, ok := cmd.(relaycore.Report); ok {
			r.untold = append(r.untold, report)
		} else {
			r.start(cmd)
		}
	}
	next := r.core.Next()
	r.recorder.After(now, commands, next)
	r.timer.Reset(max(0, next-now))
}

// start starts a command.
func (r *run) start(cmd relaycore.Command) {
	switch cmd := cmd.(type) {
	case relaycore.Renew:
		r.workers.Go(func() { r.renew(cmd) })
	case relaycore.Release:
		r.workers.Go(func() { r.release(cmd) })
	case relaycore.Count:
		r.workers.Go(func() { r.count(cmd) })
	case relaycore.Claim:
		r.workers.Go(func() { r.claim(cmd) })
	case relaycore.ClaimAhead:
		r.workers.Go(func() { r.claimAhead(cmd) })
	case relaycore.Await:
		ctx, cancel := context.WithDeadline(r.reading, r.began.Add(cmd.Until))
		r.endAwait = cancel
		r.workers.Go(func() { r.await(ctx, cancel) })
	case relaycore.EndAwait:
		r.endAwait()
	case relaycore.Publish:
		ctx, cut := context.WithCancel(r.work)
		cmd.Batch.Tag = cut
		before, sent := r.sent[cmd.Batch.Dest], make(chan struct{})
		r.sent[cmd.Batch.Dest] = sent
		r.workers.Go(func() { r.publish(ctx, cut, cmd.Batch, before, sent) })
	case relaycore.Cut:
		cmd.Batch.Tag.(context.CancelFunc)()
	case relaycore.Settle:
		r.workers.Go(func() { r.settle(cmd) })
	}
}

// handle sends an event to the owner.
func (r *run) handle(e relaycore.Event) {
	events := r.events
	switch e.(type) {
	case relaycore.Leased, relaycore.LeaseFailed:
		events = r.leases
	}
	select {
	case events <- e:
	case <-r.over:
	}
}

// ask lets the owner run a function on the core, and reports whether the run is active. After a run its
// core no longer changes, and any goroutine may read it.
func (r *run) ask(question func(*relaycore.Core)) (live bool) {
	answered := make(chan struct{})
	select {
	case r.asked <- func() { question(r.core); close(answered) }:
		<-answered
		return true
	case <-r.over:
		question(r.core)
		return false
	}
}

// tell passes the core's reports to the observer, in order. A slow observer blocks nothing else.
func (r *run) tell() {
	ctx := context.WithoutCancel(r.work)
	for list := range r.reports {
		for _, p := range list {
			r.report(ctx, p)
		}
	}
}
