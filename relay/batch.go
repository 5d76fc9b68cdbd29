package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
)

// batch is one claim on its way: look at each message, send, settle.
type batch struct {
	*Relay
	claims      []Claim
	settlements []Settlement
	blocked     map[unit]bool // keys of which an earlier message has failed in this batch
}

func (b *batch) run(ctx context.Context) error {
	b.blocked = make(map[unit]bool)
	for name, claims := range b.route() {
		b.deliver(ctx, b.outlets[name], claims)
	}
	if len(b.settlements) == 0 {
		return nil
	}
	return b.settle(ctx)
}

// route settles what needs no sending and returns the rest by destination.
func (b *batch) route() map[string][]*Claim {
	routed := make(map[string][]*Claim)
	for i := range b.claims {
		c := &b.claims[i]
		if err := unfit(c); err != nil {
			b.conclude(result{c, err})
			continue
		}
		if c.DelayFor > 0 {
			b.settlements = append(b.settlements, Settlement{Claim: c, Outcome: Schedule})
			b.due.in(c.DelayFor)
			continue
		}
		if b.destination(c) {
			routed[c.Destination] = append(routed[c.Destination], c)
		}
	}
	return routed
}

// unfit returns why a message can't be published at all, or nil.
func unfit(c *Claim) error {
	if c.Malformed != nil {
		return waybill.PermanentError(waybill.ReasonMalformed, fmt.Errorf("row does not decode: %w", c.Malformed))
	}
	if c.Expired {
		return waybill.PermanentError(waybill.ReasonExpired, errors.New("the message expired before it was published"))
	}
	return nil
}

// destination decides where a message goes and reports whether it may go there now. If not,
// it has settled the message.
func (b *batch) destination(c *Claim) bool {
	if !c.Waiting {
		names := b.mainFor(&c.Message)
		switch len(names) {
		case 0:
			b.conclude(result{c, waybill.PermanentError(waybill.ReasonUnroutable, errors.New("no destination matches the message"))})
			return false
		case 1:
			c.Destination = names[0]
		default:
			b.settlements = append(b.settlements, Settlement{Claim: c, Outcome: Fanout, Destinations: names})
			b.due.in(0)
			return false
		}
	}
	o := b.outlets[c.Destination]
	if o == nil {
		b.conclude(result{c, waybill.RetryAfter(time.Minute, fmt.Errorf("destination %q is not configured", c.Destination))})
		return false
	}
	if c.Blocked || b.blocked[unitOf(c)] {
		b.settlements = append(b.settlements, behind(c))
		return false
	}
	if wait := o.paused(); wait > 0 && len(b.outlets) > 1 {
		b.settlements = append(b.settlements, later(c, wait, "destination is paused"))
		b.block(c)
		return false
	}
	return true
}

func (b *batch) mainFor(m *waybill.Message) []string {
	var names []string
	for _, o := range b.main {
		if o.Match == nil || o.Match(m) {
			names = append(names, o.Name)
		}
	}
	return names
}

func (b *batch) block(c *Claim) {
	if c.Message.Key != "" {
		b.blocked[unitOf(c)] = true
	}
}

// deliver sends the messages of one destination in waves: all at once when pipelined, one
// per key when strict, and one alone where a message may kill the connection.
func (b *batch) deliver(ctx context.Context, o *outlet, claims []*Claim) {
	for len(claims) > 0 {
		wave, rest, alone := b.nextWave(o, claims)
		claims = rest
		if len(wave) == 0 {
			continue
		}
		if b.lanes.remaining() <= b.cfg.PublishTimeout {
			return // another relay may own the lanes before the broker answers
		}
		if available := b.deliverWave(ctx, o, wave, alone); !available {
			return
		}
	}
}

// nextWave takes from claims what may be sent together. What is behind a failed message of
// its key is settled so.
func (b *batch) nextWave(o *outlet, claims []*Claim) (wave, rest []*Claim, alone bool) {
	inWave := make(map[unit]bool)
	for i, c := range claims {
		u := unitOf(c)
		if b.blocked[u] {
			b.settlements = append(b.settlements, behind(c))
			continue
		}
		if o.suspicious(c.Position) {
			if len(wave) > 0 {
				return wave, append(rest, claims[i:]...), false
			}
			return []*Claim{c}, append(rest, claims[i+1:]...), true
		}
		if b.cfg.Mode == Strict && c.Message.Key != "" && inWave[u] {
			rest = append(rest, c)
			continue
		}
		inWave[u] = true
		wave = append(wave, c)
	}
	return wave, rest, false
}

// deliverWave sends one wave and reports whether the destination is still available.
func (b *batch) deliverWave(ctx context.Context, o *outlet, wave []*Claim, alone bool) bool {
	msgs := make([]*waybill.Message, len(wave))
	for i, c := range wave {
		msgs[i] = &c.Message
	}
	began := time.Now()
	sendCtx, end := b.cfg.Observer.Start(ctx, waybill.OpPublish, msgs...)
	errs := o.send(sendCtx, wave, alone)
	end(errors.Join(errs...))

	var down error
	var published []string
	for i, c := range wave {
		if errs[i] == nil {
			published = append(published, c.Message.ID)
		}
		if !b.conclude(result{c, errs[i]}) {
			down = errs[i]
		}
	}
	b.reportWave(ctx, o, published, down, time.Since(began))
	return down == nil
}

func (b *batch) reportWave(ctx context.Context, o *outlet, published []string, down error, took time.Duration) {
	if len(published) > 0 {
		b.totals.add(func(s *Status) { s.Published += int64(len(published)); s.LastPublishedAt = time.Now() })
		b.observe(ctx, waybill.Event{Op: waybill.OpPublish, Destination: o.Name, IDs: published, Count: len(published), Duration: took})
		if down == nil && o.resume() {
			b.observe(ctx, waybill.Event{Op: waybill.OpResume, Destination: o.Name})
		}
	}
	if down == nil || ctx.Err() != nil {
		return
	}
	wait := o.pause()
	b.failed(down)
	b.observe(ctx, waybill.Event{Op: waybill.OpPause, Destination: o.Name, Delay: wait, Err: down})
}

// conclude settles one result, and returns false if the message stays where it is because
// the destination is unavailable.
func (b *batch) conclude(r result) bool {
	st, ok := b.policy.settle(r)
	if !ok {
		return false
	}
	c := r.claim
	switch {
	case st.Outcome == Wait:
		b.block(c)
		b.due.in(st.After)
	case b.blocked[unitOf(c)] && st.Outcome == Published:
		b.observe(context.Background(), waybill.Event{Op: waybill.OpOvertaken, Destination: c.Destination, Topic: c.Message.Address(), IDs: []string{c.Message.ID}, Count: 1})
	}
	if len(st.Destinations) > 0 {
		b.due.in(0)
	}
	b.settlements = append(b.settlements, st)
	return true
}

// settle writes the outcomes down. It repeats a settlement that fails for as long as ctx
// allows: what was published must not be published again because a mark could not be made.
func (b *batch) settle(ctx context.Context) error {
	req := SettleRequest{Node: b.cfg.Node, Archive: b.cfg.Retention != KeepNothing, Settlements: b.settlements}
	began := time.Now()
	for failures := 0; ; failures++ {
		lost, err := b.src.SettleMessages(ctx, req)
		if err == nil {
			b.settled(ctx, lost, time.Since(began))
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("settle %d messages: %w", len(req.Settlements), err)
		}
		b.failed(err)
		b.observe(ctx, waybill.Event{Op: waybill.OpSettle, Count: len(req.Settlements), Err: err})
		loop.Sleep(ctx, min(10*time.Millisecond<<min(failures, 8), 2*time.Second))
	}
}

// settled reports the outcomes that hold: those of lanes that were not lost.
func (b *batch) settled(ctx context.Context, lost []int, took time.Duration) {
	b.observe(ctx, waybill.Event{Op: waybill.OpSettle, Count: len(b.settlements), Duration: took})
	gone := make(map[int]bool, len(lost))
	for _, n := range lost {
		gone[n] = true
	}
	if len(lost) > 0 {
		b.lanes.drop(lost)
		b.observe(ctx, waybill.Event{Op: waybill.OpLeaseLost, Count: len(lost), Err: waybill.ErrLeaseLost})
	}
	for _, st := range b.settlements {
		if !gone[st.Claim.Lane.Number] {
			b.reportOutcome(ctx, st)
		}
	}
}

func (b *batch) reportOutcome(ctx context.Context, st Settlement) {
	m := &st.Claim.Message
	e := waybill.Event{
		Destination: st.Claim.Destination, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1,
		Attempt: st.Attempts, Delay: st.After, Reason: st.Reason,
	}
	if st.Error != "" {
		e.Err = errors.New(st.Error)
	}
	switch {
	case st.Outcome == Wait && !st.Behind && st.Error != "":
		e.Op = waybill.OpRetry
		b.totals.add(func(s *Status) { s.Retried++ })
	case st.Outcome == Dead, st.Outcome == Failed:
		if st.Reason != waybill.ReasonExhausted {
			e.Err = waybill.PermanentError(st.Reason, e.Err)
		}
		e.Op = waybill.OpDead
		if st.Outcome == Failed {
			e.Op = waybill.OpFailed
		}
		b.totals.add(func(s *Status) { s.Dead++ })
	default:
		return
	}
	b.failed(e.Err)
	b.observe(ctx, e)
}

func (b *batch) failed(err error) {
	b.totals.add(func(s *Status) { s.LastError, s.LastErrorAt = waybill.ErrorText(err), time.Now() })
}
