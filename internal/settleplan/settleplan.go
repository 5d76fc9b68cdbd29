// Package settleplan sorts the settlements of a batch by what a store must do with their rows, so
// that all stores settle in the same way.
//
// A message that is not simply published goes through the waiting rows: it is parked there first,
// in the same transaction, so that each outcome takes only one kind of step. The steps must be done
// in the order of the fields of [Plan].
package settleplan

import (
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
)

// Row is a row of the outbox, or a waiting one, and what becomes of it.
type Row struct {
	Lane        int
	Position    int64
	ID          string // of the message
	Destination string // of the waiting row
	Follower    string // Follow: the destination of the new row

	Leaving        bool // Park: only to be removed
	Behind         bool // Park, Retry: due when what is before it in its unit is gone
	Alone          bool // Park, Retry: due by itself, outside of its unit
	After          time.Duration
	Attempts, Life int
	Error          string
	Took           time.Duration // of the last attempt
	Fingerprint    string        // Bury: of the dead letter
	Reason         waybill.Reason
	Failed         bool
	Parks          bool // Bury: what is behind it in its unit waits for the dead letter
}

// Unit is what order is kept by. A row of a unit waits behind the rows before it that are not
// alone, and behind the dead letters before it that park the unit.
type Unit struct{ Topic, Key, Destination string }

// Plan is what to do, step by step.
type Plan struct {
	// Published are those whose rows only leave the outbox for the archive.
	Published []contract.Settlement

	// Park moves rows from the outbox to the waiting rows. Of several rows for one position
	// each has another destination. A row of a unit that waits already waits behind it, but not
	// behind one that is parked only to be removed: those come last.
	Park []Row

	// Follow adds another waiting row to one, for Follower, due now unless it has a key; then
	// Promote decides.
	Follow []Row

	Done     []Row // waiting rows that are published
	Routed   []Row // waiting rows whose message has one for each of its destinations now
	Bury     []Row // waiting rows that become dead letters
	Schedule []Row // waiting rows that become scheduled

	// Retry changes waiting rows: when they are due, unless something waits before them in their
	// unit, and the result of the last attempt. A row that is Behind and brings no error keeps the
	// one it has. Those that are Alone come first: nothing of their unit waits for them when the
	// others are processed.
	Retry []Row

	// Promote releases the first waiting row of each unit if it has no due time and is behind no
	// dead letter that parks the unit. Such dead letters must not change from before the first step
	// until the transaction ends: if one went unnoticed, its followers would never get a due time.
	Promote []Unit
}

// New returns the plan for a list of settlements.
func New(list []contract.Settlement) *Plan {
	if !slices.ContainsFunc(list, func(st contract.Settlement) bool { return !straight(&st) }) {
		return &Plan{Published: list}
	}
	b := builder{promoted: make(map[Unit]bool), first: make(map[Unit]int64)}
	for i := range list {
		b.see(&list[i])
	}
	for i := range list {
		b.add(&list[i])
	}
	b.Park = append(b.Park, b.leaving...)
	b.Retry = append(b.alone, b.Retry...)
	return &b.Plan
}

// OnlyPublished reports whether nothing goes through the waiting rows.
func (p *Plan) OnlyPublished() bool {
	return len(p.Park)+len(p.Follow)+len(p.Done)+len(p.Routed)+len(p.Bury)+len(p.Schedule)+len(p.Retry)+len(p.Promote) == 0
}

// straight reports whether a message was published from the outbox and needs no waiting row.
func straight(st *contract.Settlement) bool {
	return st.Outcome == contract.Published && !st.Claim.Waiting && len(st.Destinations) == 0
}

type builder struct {
	Plan
	promoted map[Unit]bool
	first    map[Unit]int64 // position of the first row of the unit that others must wait behind
	leaving  []Row
	alone    []Row // retried outside of their unit
}

func row(st *contract.Settlement) Row {
	c := st.Claim
	r := Row{
		Lane: c.Lane.Number, Position: c.Position, ID: c.Message.ID, Destination: c.Destination,
		Behind: st.Behind, Alone: st.Alone, After: st.After, Attempts: st.Attempts, Life: st.Life,
		Error: st.Error, Took: st.Took, Reason: st.Reason, Failed: st.Outcome == contract.Failed, Parks: st.Park && c.Message.Key != "",
	}
	if st.Outcome == contract.Dead || st.Outcome == contract.Failed {
		r.Fingerprint = deadletter.Fingerprint(deadletter.FromRelay, c.Message.Address(), c.Message.Type, st.Error)
	}
	return r
}

func unit(c *contract.Claim, destination string) Unit {
	return Unit{c.Message.Address(), c.Message.Key, destination}
}

// see records which row of each unit waits first, or parks it. Rows of one unit that are parked by
// one statement do not see each other, nor dead letters that are yet to be written.
func (b *builder) see(st *contract.Settlement) {
	c := st.Claim
	blocks := st.Outcome == contract.Wait && !st.Alone || st.Park
	if !blocks || c.Message.Key == "" {
		return
	}
	u := unit(c, c.Destination)
	if first, ok := b.first[u]; !ok || c.Position < first {
		b.first[u] = c.Position
	}
}

func (b *builder) add(st *contract.Settlement) {
	c := st.Claim
	if straight(st) {
		b.Published = append(b.Published, *st)
		return
	}
	r := row(st)
	b.promote(c, c.Destination)
	if !c.Waiting {
		b.park(st, r)
	}
	switch st.Outcome {
	case contract.Published:
		b.follow(st, r)
		b.Done = append(b.Done, r)
	case contract.Fanout:
		if c.Waiting {
			b.follow(st, r)
			b.Routed = append(b.Routed, r)
		}
	case contract.Wait:
		if c.Waiting {
			b.retry(c, r)
		}
	case contract.Dead, contract.Failed:
		b.Bury = append(b.Bury, r)
	case contract.Schedule:
		b.Schedule = append(b.Schedule, r)
	}
}

func (b *builder) park(st *contract.Settlement, r Row) {
	c := st.Claim
	keyed := c.Message.Key != ""
	switch st.Outcome {
	case contract.Wait:
		r.Behind = !r.Alone && (r.Behind || b.waitsBefore(c))
		b.Park = append(b.Park, r)
	case contract.Fanout:
		r.Behind = keyed
		for _, d := range st.Destinations {
			r.Destination = d
			b.Park = append(b.Park, r)
			b.promote(c, d)
		}
	default:
		r.Leaving = true
		b.leaving = append(b.leaving, r)
	}
}

func (b *builder) retry(c *contract.Claim, r Row) {
	if r.Alone {
		b.alone = append(b.alone, r)
		return
	}
	r.Behind = r.Behind || b.waitsBefore(c)
	b.Retry = append(b.Retry, r)
}

// waitsBefore reports whether the claim must wait for an earlier one of the settlements.
func (b *builder) waitsBefore(c *contract.Claim) bool {
	first, ok := b.first[unit(c, c.Destination)]
	return ok && first < c.Position
}

func (b *builder) follow(st *contract.Settlement, r Row) {
	for _, d := range st.Destinations {
		r.Follower = d
		b.Follow = append(b.Follow, r)
		b.promote(st.Claim, d)
	}
}

func (b *builder) promote(c *contract.Claim, destination string) {
	u := unit(c, destination)
	if u.Key == "" || b.promoted[u] {
		return
	}
	b.promoted[u] = true
	b.Promote = append(b.Promote, u)
}

// Held returns the lanes of settlements that are owned at the epoch of each settlement.
func Held(list []contract.Settlement, owned []contract.Lane) []int {
	var held []int
	for _, l := range owned {
		if slices.ContainsFunc(list, func(st contract.Settlement) bool { return st.Claim.Lane == l }) {
			held = append(held, l.Number)
		}
	}
	return held
}

// Keep returns the settlements of the lanes that are still held.
func Keep(list []contract.Settlement, held []int) []contract.Settlement {
	set := setOf(held)
	kept := make([]contract.Settlement, 0, len(list))
	for _, st := range list {
		if set[st.Claim.Lane.Number] {
			kept = append(kept, st)
		}
	}
	return kept
}

// Lost returns the numbers of the lanes of settlements that are no longer held.
func Lost(list []contract.Settlement, held []int) []int {
	set := setOf(held)
	var lost []int
	for _, st := range list {
		if n := st.Claim.Lane.Number; !set[n] {
			lost = append(lost, n)
			set[n] = true
		}
	}
	return lost
}

func setOf(numbers []int) map[int]bool {
	set := make(map[int]bool, len(numbers))
	for _, n := range numbers {
		set[n] = true
	}
	return set
}
