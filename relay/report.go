package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
	"github.com/waybill-go/waybill/internal/report"
	"github.com/waybill-go/waybill/observe"
)

// report passes a report of the core to the observer.
func (r *Relay) report(ctx context.Context, p relaycore.Report) {
	r.note(p)
	for _, e := range r.eventsOf(p) {
		r.observe(ctx, e)
	}
}

// note keeps the data for Status.
func (r *Relay) note(p relaycore.Report) {
	r.last.mu.Lock()
	defer r.last.mu.Unlock()
	switch p.What {
	case relaycore.PublishedNow:
		r.last.published = time.Now()
	case relaycore.Paused, relaycore.Retried, relaycore.Dead, relaycore.Failed, relaycore.SettleFails, relaycore.ReleaseFails:
		r.last.err, r.last.failed = observe.ErrorText(p.Err), time.Now()
	}
}

// ops maps reports to the operations of events.
var ops = map[relaycore.What]observe.Op{
	relaycore.Claims: observe.OpClaim, relaycore.LanesChanged: observe.OpLanes, relaycore.LeaseLost: observe.OpLeaseLost,
	relaycore.BackPressure: observe.OpBackPressure, relaycore.PublishedNow: observe.OpPublish, relaycore.Overtaken: observe.OpOvertaken,
	relaycore.DedupExpired: observe.OpDedupExpired, relaycore.Paused: observe.OpPause, relaycore.Resumed: observe.OpResume,
	relaycore.SettledNow: observe.OpSettle, relaycore.SettleFails: observe.OpSettle, relaycore.Retried: observe.OpRetry,
	relaycore.Dead: observe.OpDead, relaycore.Failed: observe.OpFailed,
}

// eventsOf returns the events of a report.
func (r *Relay) eventsOf(p relaycore.Report) []observe.Event {
	e := observe.Event{Op: ops[p.What], Destination: p.Dest, Topic: p.Topic, Count: p.Count, Delay: p.Delay, Duration: p.Took, Err: p.Err}
	switch p.What {
	case relaycore.PublishedNow:
		return report.ByType(e, messagesOf(p.Messages))
	case relaycore.DedupExpired:
		e.Delay, e.Duration = 0, p.Delay
		return report.ByType(e, messagesOf(p.Messages))
	case relaycore.Overtaken:
		var list []observe.Event
		for _, m := range p.Messages {
			e.Topic, e.IDs, e.Count = m.Topic, []string{claimOf(m).Message.ID}, 1
			list = append(list, e)
		}
		return list
	case relaycore.Retried, relaycore.Dead, relaycore.Failed:
		st := p.Settlement
		m := &claimOf(st.Message).Message
		e.Type, e.IDs, e.Count, e.Attempt, e.Delay, e.Reason = m.Type, []string{m.ID}, 1, st.Attempts, st.After, st.Reason
	case relaycore.SettleFails:
		e.Err = fmt.Errorf("settle %d messages: %w", p.Count, p.Err)
	case relaycore.SettleStalls:
		return r.failedLoop("settle", fmt.Errorf("settling %d messages has failed for %v: %w", p.Count, p.Delay.Truncate(time.Second), p.Err))
	case relaycore.LoopFails:
		return r.failedLoop(p.Topic, p.Err)
	case relaycore.StepsAside:
		return r.failedLoop("lease", p.Err)
	case relaycore.ReleaseFails:
		return r.failedLoop("release", p.Err)
	}
	return []observe.Event{e}
}

func (r *Relay) failedLoop(name string, err error) []observe.Event {
	return []observe.Event{{Op: observe.OpLoop, Name: r.loopName(name), Loop: "relay " + name, Err: err}}
}

func (r *Relay) loopName(name string) string { return "relay " + r.cfg.Node + " " + name }

func messagesOf(list []*relaycore.Message) []*waybill.Message {
	msgs := make([]*waybill.Message, len(list))
	for i, m := range list {
		msgs[i] = &claimOf(m).Message
	}
	return msgs
}

func (r *Relay) observe(ctx context.Context, e observe.Event) {
	if e.Name == "" {
		e.Name = r.cfg.Node
	}
	r.cfg.Observer.Observe(ctx, e)
}

// Health returns nil while the relay works. It returns a [*waybill.StalledError] for each problem,
// joined, if the last successful claim or renewal of its lease is too old (three intervals, or the
// lease), if settlements have failed for as long as a lease lasts, or if the store has refused to
// settle a message, or to release what is due, for more than a minute. Another relay of the same
// name is an error, too. A destination that does not answer is no error of the relay; Status
// reports it. But if there are other relays, a relay none of whose destinations has answered for
// three times LeaseTTL lets its lease expire from time to time, so that they take its lanes, and
// returns an error.
func (r *Relay) Health() error {
	current := r.latest.Load()
	if current == nil {
		return errors.Join(&waybill.StalledError{Loop: r.loopName("claim")}, &waybill.StalledError{Loop: r.loopName("lease")})
	}
	var errs []error
	current.ask(func(c *relaycore.Core) { errs = c.Health(time.Since(current.began)) })
	for i, err := range errs {
		var stalled *relaycore.Stalled
		if errors.As(err, &stalled) {
			errs[i] = &waybill.StalledError{Loop: r.loopName(stalled.Loop), Age: stalled.Age, Err: stalled.Err}
		} else {
			errs[i] = fmt.Errorf("relay %s: %w", r.cfg.Node, err)
		}
	}
	return errors.Join(append(errs, r.nameTaken())...)
}
