package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/relaycore"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
)

// A simulated millisecond takes ten seconds of the store's clock, and the simulated clock moves by ticks of ten: how long
// calls take in truth makes no difference.
const (
	scale = 10_000
	tick  = 10 * time.Millisecond
)

// source is what the simulator does on a store.
type source[Tx any] interface {
	contract.Source
	outbox.Store[Tx]
	inspect.Outbox
	deadletter.Store
}

// realStore is the twin of the model's store.
type realStore[Tx any] struct {
	ctx   context.Context
	w     *world
	db    database[Tx]
	lanes int

	store     source[Tx]
	relays    map[*node]source[Tx]             // each has what is in memory to itself
	open      map[*row]func(commit bool) error // transactions of producers
	claims    map[*row]*contract.Claim
	found     []contract.Claim // by the latest claim
	positions map[int64]int64  // by those of the model
	epochs    map[int]int64    // by lane: how much higher they are than those of the model
	began     time.Time
	at        relaycore.Time // what the clock was last set to
}

// twinOf begins a run on a store that is empty.
func twinOf[Tx any](ctx context.Context, w *world, lanes int, db database[Tx]) (*realStore[Tx], error) {
	s, err := db.open()
	return &realStore[Tx]{
		ctx: ctx, w: w, db: db, lanes: lanes, store: s, relays: make(map[*node]source[Tx]), open: make(map[*row]func(bool) error), claims: make(map[*row]*contract.Claim),
		positions: make(map[int64]int64), epochs: make(map[int]int64), began: time.Now(), at: -1,
	}, err
}

func (s *realStore[Tx]) lane(id, key string) int {
	return int(sha256.Sum256([]byte(cmp.Or(key, id)))[0]) % s.lanes
}

// tell sets the clock.
func (s *realStore[Tx]) tell() error {
	now := s.w.clock()
	if now == s.at {
		return nil
	}
	s.at = now
	return s.db.set(s.ctx, now*scale-time.Since(s.began))
}

// time returns when something simulated is.
func (s *realStore[Tx]) time(t relaycore.Time) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return s.began.Add(t * scale)
}

// of returns the store of a relay.
func (s *realStore[Tx]) of(n *node) (source[Tx], error) {
	if own := s.relays[n]; own != nil {
		return own, nil
	}
	own, err := s.db.open()
	s.relays[n] = own
	return own, err
}

func (s *realStore[Tx]) late() bool { return s.db.begin != nil }

func (s *realStore[Tx]) begin(r *row) error {
	if !s.late() {
		return nil
	}
	if err := s.tell(); err != nil {
		return err
	}
	tx, end, err := s.db.begin(s.ctx)
	if err != nil {
		return err
	}
	s.open[r] = end
	isNew, err := s.store.EnqueueMessages(s.ctx, tx, outbox.Batch{Messages: []waybill.Message{s.message(r)}})
	return differs("enqueue "+r.id, err, isNew, []bool{true})
}

func (s *realStore[Tx]) commit(r *row) error {
	if s.late() {
		end := s.open[r]
		delete(s.open, r)
		return end(true)
	}
	isNew, err := []bool(nil), s.tell()
	if err == nil {
		isNew, err = s.store.Transact(s.ctx, func(context.Context, Tx) (outbox.Batch, error) {
			return outbox.Batch{Messages: []waybill.Message{s.message(r)}}, nil
		})
	}
	return differs("enqueue "+r.id, err, isNew, []bool{true})
}

// rollBack ends the transactions that are open.
func (s *realStore[Tx]) rollBack() (err error) {
	for _, end := range s.open {
		err = errors.Join(err, end(false))
	}
	return err
}

func (s *realStore[Tx]) message(r *row) waybill.Message {
	m := waybill.Message{
		ID: r.id, Topic: r.topic, Key: r.key, Tenant: r.tenant, Type: "t", Source: "sim", DeliverAt: s.time(r.deliver), ExpiresAt: s.time(r.expires),
	}
	m.Complete()
	return m
}

func (s *realStore[Tx]) left(n *node) error {
	own, err := s.of(n)
	if err == nil {
		err = own.LeaveLanes(s.ctx, n.name)
	}
	delete(s.relays, n)
	return err
}

func (s *realStore[Tx]) resolved(letter *row, requeue, done bool) error {
	if err := s.tell(); err != nil {
		return err
	}
	act, state := deadletter.Act{By: "sim"}, deadletter.Open
	if letter.resolved {
		state = deadletter.Resolved
	}
	list, err := s.store.DeadLetters(s.ctx, deadletter.Filter{MessageID: letter.id, State: state})
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(l deadletter.Letter) bool { return l.Destination != letter.dest || l.Requeues != letter.life })
	if len(list) == 0 {
		return fmt.Errorf("the dead letter of %s@%s is not there", letter.id, letter.dest)
	}
	number := list[len(list)-1].Number
	switch {
	case letter.resolved && (!requeue || !done):
		return nil
	case letter.resolved:
		if _, err := s.store.RestoreDeadLetter(s.ctx, number, act); err != nil {
			return err
		}
	case !requeue:
		_, err := s.store.ResolveDeadLetter(s.ctx, number, act)
		return err
	}
	_, err = s.store.RequeueDeadLetter(s.ctx, number, act)
	if errors.Is(err, deadletter.ErrBehind) != !done {
		return fmt.Errorf("requeue of %s: %w, want %v", letter.id, err, done)
	}
	if !done {
		return nil
	}
	return err
}

func (s *realStore[Tx]) called(n *node, cmd relaycore.Command, answer relaycore.Event) error {
	if err := s.tell(); err != nil {
		return err
	}
	own, err := s.of(n)
	if err != nil {
		return err
	}
	switch cmd := cmd.(type) {
	case relaycore.Renew:
		return s.renewed(own, n, cmd, answer)
	case relaycore.Release:
		moved, err := own.ReleaseScheduled(s.ctx, cmd.Limit)
		return differs("release", err, relaycore.Released{Count: moved}, answer)
	case relaycore.Count:
		keys, messages, err := own.CountParked(s.ctx, s.theirs(cmd.Lanes))
		return differs("count", err, relaycore.Counted{Keys: keys, Messages: messages}, answer)
	case relaycore.Claim:
		if found, ok := answer.(relaycore.Claimed); ok {
			return s.claimed(n, found)
		}
	case relaycore.Settle:
		if done, ok := answer.(relaycore.Settled); ok {
			return s.settled(own, n, cmd, done)
		}
	}
	return nil
}

func (s *realStore[Tx]) renewed(own source[Tx], n *node, cmd relaycore.Renew, answer relaycore.Event) error {
	lease, err := own.RenewLanes(s.ctx, contract.LeaseRequest{Node: n.name, Join: cmd.Join, TTL: s.w.leaseTTL() * scale, Give: cmd.Give})
	want, leased := answer.(relaycore.Leased)
	if lost := errors.Is(err, waybill.ErrLeaseLost); lost || !leased {
		return differs("whether the lease of "+n.name+" is lost", nil, lost, !leased)
	}
	got := relaycore.Leased{Share: lease.Share, Total: lease.Total}
	for _, l := range lease.Lanes {
		if _, known := s.epochs[l.Number]; !known {
			s.epochs[l.Number] = l.Epoch - s.w.store.lanes[l.Number].epoch
		}
		got.Lanes = append(got.Lanes, relaycore.Lane{Number: l.Number, Epoch: l.Epoch - s.epochs[l.Number]})
	}
	return differs("renew "+n.name, err, got, want)
}

// theirs returns lanes with the epochs of the store.
func (s *realStore[Tx]) theirs(lanes []relaycore.Lane) (list []contract.Lane) {
	for _, l := range lanes {
		list = append(list, contract.Lane{Number: l.Number, Epoch: l.Epoch + s.epochs[l.Number]})
	}
	return list
}

func (s *realStore[Tx]) claim(n *node, cmd relaycore.Claim) (func(*row) bool, error) {
	own, err := s.of(n)
	if err == nil {
		err = s.tell()
	}
	if err != nil {
		return nil, err
	}
	req := contract.ClaimRequest{
		Lanes: s.theirs(cmd.Lanes), Limit: cmd.Limit, Bytes: cmd.Bytes, Due: cmd.Due, DueOnly: cmd.DueOnly, Again: cmd.Again, Paused: cmd.Paused,
		HeldFor: make(map[int64][]string),
	}
	if n.forgot {
		n.forgot, req.Again = false, nil
		for _, l := range cmd.Lanes {
			req.Again = append(req.Again, l.Number)
		}
	}
	for _, p := range cmd.Held {
		req.Held = append(req.Held, s.positions[p])
		if dests, partly := cmd.HeldFor[p]; partly {
			req.HeldFor[s.positions[p]] = dests
		}
	}
	slices.Sort(req.Held)
	s.found, err = own.ClaimMessages(s.ctx, req)
	chosen := make(map[string]bool)
	for i := range s.found {
		chosen[nameOf(&s.found[i])] = true
	}
	return func(r *row) bool { return chosen[r.id+"@"+r.dest] }, err
}

func nameOf(c *contract.Claim) string { return c.Message.ID + "@" + c.Destination }

// claimed compares what was claimed.
func (s *realStore[Tx]) claimed(n *node, answer relaycore.Claimed) error {
	found := make(map[string]*contract.Claim)
	var got, want []string
	for i := range s.found {
		c := &s.found[i]
		found[nameOf(c)] = c
		lane := relaycore.Lane{Number: c.Lane.Number, Epoch: c.Lane.Epoch - s.epochs[c.Lane.Number]}
		got = append(got, fmt.Sprint(nameOf(c), " of ", c.Message.Topic, "/", c.Message.Key, lane, c.Waiting, c.Blocked, c.Attempts, c.Life,
			simulated(c.DelayFor), c.Expired, simulated(c.ExpiresIn)))
	}
	for i := range answer.Messages {
		m := &answer.Messages[i]
		if c := found[copyOf(m)]; c != nil {
			s.claims[rowOf(m)] = c
			s.positions[m.Position] = c.Position
		}
		want = append(want, fmt.Sprint(copyOf(m), " of ", m.Topic, "/", m.Key, m.Lane, m.Waiting, m.Blocked, m.Attempts, m.Life,
			m.DelayFor.Truncate(tick), m.Expired, m.ExpiresIn.Truncate(tick)))
	}
	s.w.say("%s has claimed %q of %q", n.name, got, want)
	if n.stops { // it releases what it claims, and a store may find that again
		return nil
	}
	slices.Sort(got)
	slices.Sort(want)
	return differs("claim of "+n.name, nil, got, want)
}

// simulated returns how long something takes in the simulation.
func simulated(d time.Duration) time.Duration { return (d / scale).Truncate(tick) }

func (s *realStore[Tx]) settled(own source[Tx], n *node, cmd relaycore.Settle, answer relaycore.Settled) error {
	req := contract.SettleRequest{Node: n.name, Archive: true}
	for i := range cmd.Settlements {
		st := &cmd.Settlements[i]
		claim := s.claims[rowOf(st.Message)]
		if claim == nil {
			return fmt.Errorf("%s settles %s, which the store has not returned to it", n.name, copyOf(st.Message))
		}
		c := *claim
		c.Destination = st.Message.Dest
		req.Settlements = append(req.Settlements, contract.Settlement{
			Claim: &c, Outcome: contract.Outcome(st.Outcome), After: st.After * scale, Behind: st.Behind, Alone: st.Alone, Park: st.Park,
			Attempts: st.Attempts, Life: st.Life, Reason: st.Reason, Error: observe.ErrorText(st.Err), Took: st.Took, Destinations: st.To,
		})
	}
	lost, err := own.SettleMessages(s.ctx, req)
	return differs("settle of "+n.name, err, sorted(lost), sorted(answer.Lost))
}

func sorted(list []int) []int { return slices.Compact(slices.Sorted(slices.Values(list))) }

// drained checks that nothing is left.
func (s *realStore[Tx]) drained() error {
	list, err := s.store.OutboxMessages(s.ctx, inspect.Filter{})
	return differs("what is left", err, len(list), 0)
}

// differs returns an error if the store has not answered as the model has.
func differs(what string, err error, got, want any) error {
	switch g, w := lines(got), lines(want); {
	case err != nil:
		return fmt.Errorf("%s: the store says: %w", what, err)
	case g != w:
		return fmt.Errorf("%s: the store says %s\nthe model %s", what, g, w)
	}
	return nil
}

func lines(v any) string {
	if list, ok := v.([]string); ok {
		return strings.Join(append([]string{""}, list...), "\n  ")
	}
	return fmt.Sprintf("%+v", v)
}

// database is an empty database of one run.
type database[Tx any] struct {
	open func() (source[Tx], error)                            // a store on it
	set  func(ctx context.Context, offset time.Duration) error // its clock from the true time
	end  func() error
	// begin begins a transaction that may stay open while others are at work; nil where none may.
	begin func(ctx context.Context) (Tx, func(commit bool) error, error)
}

// kind is a kind of store.
type kind[Tx any] struct {
	seeds int // that are run, twenty times as many in make soak
	lanes int
	begin func(ctx context.Context) (database[Tx], error)
}

// planFor returns the plan of a seed for a store: without what the store has no part in.
func (k *kind[Tx]) planFor(seed uint64) plan {
	p := planOf(seed)
	p.Large, p.Odd, p.Ahead, p.Readers, p.Limit = false, false, false, 0, 0
	if p.Backlog {
		p.Backlog, p.Messages, p.Keys = false, 40, 2
	}
	return p
}

// run runs a plan on the model and on a store.
func (k *kind[Tx]) run(ctx context.Context, p plan, log io.Writer) (err error) {
	db, err := k.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.end()) }()
	p.Lanes = k.lanes // also of a plan that was made smaller
	w := newWorld(p, log)
	s, err := twinOf(ctx, w, k.lanes, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.rollBack()) }()
	w.twin, w.tick = s, tick
	if err := w.run(); err != nil {
		return err
	}
	return s.drained()
}

// testTwin does on a store what the relays of some seeds do on the model: it answers as the model does.
func testTwin[Tx any](t *testing.T, k kind[Tx]) {
	t.Helper()
	t.Parallel()
	if os.Getenv("E2E_SOAK") != "" {
		k.seeds *= 20
	}
	for seed := range uint64(k.seeds) {
		p := k.planFor(seed)
		if err := k.run(t.Context(), p, nil); err != nil {
			t.Logf("seed %d: %v; looking for a smaller run", seed, err)
			small, smallest := shrink(p, func(p plan) error { return k.run(t.Context(), p, nil) }, 5)
			var story strings.Builder
			_ = k.run(t.Context(), small, &story) // the same error
			t.Fatalf("seed %d: %v\nthe smallest that fails, too: %v\n%s", seed, err, smallest, story.String())
		}
	}
}
