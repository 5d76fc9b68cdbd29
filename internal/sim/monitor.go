package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// monitor checks the commands of one relay against the events that it received: it knows each event and
// command, and nothing of the core. It also forbids what would break a promise only under further faults.
type monitor struct {
	cfg      *relaycore.Config
	owned    map[int]int64               // epochs of the lanes that the relay owns by the latest event
	flying   map[*relaycore.Batch]bool   // batches in flight
	units    map[unit]*relaycore.Batch   // the keys that these have in flight
	unsure   map[*relaycore.Message]bool // an attempt may have arrived
	dests    map[string]*evidence
	settling []relaycore.Settlement // the call that is running
	reading  []relaycore.Lane       // the lanes of the running claim
	parked   bool                   // more is parked than allowed, by the latest count
	renewed  relaycore.Time         // the latest success, or when it could not be expected
	claimed  relaycore.Time         // the latest claim, or when it could not be expected
	unread   relaycore.Time         // since when claims have failed; 0 if the latest has not
	landed   relaycore.Time         // when lanes were last owned
	latest   map[string]int64       // positions sent last, by tenant, where the order of positions is promised; else nil
	probes   relaycore.Time         // pauses may end early until then
	rested   relaycore.Time         // when the lease was last allowed to expire
}

// unit is a key of a topic at a destination.
type unit struct{ dest, topic, key string }

// evidence is what the lost connections of a destination show about messages.
type evidence struct {
	sends    int
	numbers  map[*relaycore.Batch]int
	answered int                        // the latest batch of which a message was accepted
	cut      int                        // sends when a connection was last lost
	among    map[*relaycore.Message]int // connections lost with one claim of a message among others
	alone    map[string]int             // connections lost with only one message in flight while others were accepted
	ended    map[*relaycore.Message]int // the same, by one claim of a message
	paused   relaycore.Time             // nothing may be sent to it before
	failing  relaycore.Time             // since when it has been paused again and again; 0 if it accepts something
	failed   relaycore.Time             // the latest of those pauses
	follows  bool                       // it is a follower
	rate     float64
	sent     []relaycore.Time // of the last second
}

const (
	longestPause = 10 * time.Second
	poisonProof  = 2
	suspectAfter = 2
	// mostIdle is for how long a relay that could renew its lease, or claim, may do neither: random failures
	// of calls last much shorter.
	mostIdle = time.Minute
	// landless is for how long a relay that owns no lanes may hold messages.
	landless = 30 * time.Second
)

func newMonitor(cfg *relaycore.Config, now relaycore.Time) *monitor {
	m := &monitor{
		cfg: cfg, flying: make(map[*relaycore.Batch]bool), units: make(map[unit]*relaycore.Batch), unsure: make(map[*relaycore.Message]bool),
		dests: make(map[string]*evidence), renewed: now, claimed: now, landed: now, rested: now,
	}
	for i, d := range slices.Concat(cfg.Dests, cfg.Followers) {
		m.dests[d.Name] = &evidence{among: make(map[*relaycore.Message]int), numbers: make(map[*relaycore.Batch]int), alone: make(map[string]int), ended: make(map[*relaycore.Message]int), rate: d.Rate, failed: -never, follows: i >= len(cfg.Dests)}
	}
	return m
}

// excuse records that the relay could do nothing until a time.
func (m *monitor) excuse(until relaycore.Time) {
	m.renewed, m.claimed, m.landed, m.rested = max(m.renewed, until), max(m.claimed, until), max(m.landed, until), max(m.rested, until)
}

// jumped forgets what was measured by the clock of the relay, which shows nothing new until a time.
func (m *monitor) jumped(until relaycore.Time) {
	m.probes = max(m.probes, until+4*m.cfg.LeaseTTL)
	for _, d := range m.dests {
		d.paused, d.sent = 0, nil
	}
}

// told receives an event before the relay does.
func (m *monitor) told(e relaycore.Event, now relaycore.Time) {
	switch e := e.(type) {
	case relaycore.Leased:
		if now-m.renewed >= m.cfg.LeaseTTL || e.Share >= e.Total { // or there is no other relay to take the lanes
			m.rested = now
		}
		m.renewed = now
		m.owned = make(map[int]int64, len(e.Lanes))
		for _, l := range e.Lanes {
			m.owned[l.Number] = l.Epoch
		}
	case relaycore.LeaseFailed:
		if e.Lost {
			m.owned, m.rested = nil, now
		}
	case relaycore.Settled:
		for _, st := range m.settling {
			if l := st.Message.Lane; slices.Contains(e.Lost, l.Number) && m.owns(l) {
				delete(m.owned, l.Number)
			}
		}
		m.settling = nil
	case relaycore.SettleFailed:
		m.settling = nil
	case relaycore.Counted:
		if e.Err == nil {
			m.parked = e.Messages >= m.cfg.MaxParked || e.Keys >= m.cfg.MaxParkedKeys
		}
	case relaycore.Claimed:
		m.reading, m.unread = nil, 0
	case relaycore.ClaimedAhead:
		m.reading = nil
	case relaycore.ClaimFailed:
		if m.reading = nil; m.unread == 0 {
			m.unread = now
		}
	case relaycore.Answered:
		m.answered(e, now)
	}
}

func (m *monitor) owns(l relaycore.Lane) bool {
	epoch, yes := m.owned[l.Number]
	return yes && epoch == l.Epoch
}

// answered receives the results of a batch.
func (m *monitor) answered(e relaycore.Answered, now relaycore.Time) {
	b, d := e.Batch, m.dests[e.Batch.Dest]
	delete(m.flying, b)
	for i, msg := range b.Messages {
		if m.units[unitOf(msg)] == b {
			delete(m.units, unitOf(msg))
		}
		r := e.Results[i]
		switch {
		case r.Err == nil:
			d.answered, d.failing, d.failed = max(d.answered, d.numbers[b]), 0, -never
		case r.Lost:
			if b.Alone && d.answered > d.cut {
				d.alone[copyOf(msg)]++
				d.ended[msg]++
			}
			if !b.Alone {
				d.among[msg]++
			}
			d.cut = d.sends
		}
		if r.Unsure {
			m.unsure[msg] = true
		}
	}
	delete(d.numbers, b)
}

func unitOf(m *relaycore.Message) unit { return unit{m.Dest, m.Topic, m.Key} }

// asks checks a command.
func (m *monitor) asks(cmd relaycore.Command, now relaycore.Time) error {
	switch cmd := cmd.(type) {
	case relaycore.Renew:
		return m.gives(cmd.Give)
	case relaycore.Claim:
		m.claimed, m.reading = now, cmd.Lanes
		if m.parked && !cmd.DueOnly {
			return fmt.Errorf("new messages are claimed although more are parked than may be")
		}
		return m.reads(cmd.Lanes)
	case relaycore.ClaimAhead:
		m.claimed, m.reading = now, cmd.Lanes
		return m.reads(cmd.Lanes)
	case relaycore.Publish:
		return m.sends(cmd.Batch, now)
	case relaycore.Settle:
		m.settling = cmd.Settlements
		return m.settles(cmd.Settlements)
	case relaycore.Report:
		return m.reports(cmd, now)
	}
	return nil
}

// reports receives pauses, and checks that they are bounded.
func (m *monitor) reports(r relaycore.Report, now relaycore.Time) error {
	switch r.What {
	case relaycore.Paused:
		if r.Delay > longestPause {
			return fmt.Errorf("%q is paused for %v", r.Dest, r.Delay)
		}
		if r.Topic == "" {
			d := m.dests[r.Dest]
			if now-2*longestPause > d.failed { // isolated topics are paused separately
				d.failing = now
			}
			d.paused, d.failed = now+r.Delay, now
		}
	case relaycore.Resumed:
		m.dests[r.Dest].paused = 0
	case relaycore.StepsAside: // after its rest it tries everything at once
		for _, d := range m.dests {
			d.paused, d.failing, d.failed = 0, 0, -never
		}
		m.probes = now + 4*m.cfg.LeaseTTL
	}
	return nil
}

// gives checks lanes that are released: nothing of them is in flight or being read.
func (m *monitor) gives(lanes []int) error {
	for b := range m.flying {
		for _, msg := range b.Messages {
			if slices.Contains(lanes, msg.Lane.Number) {
				return fmt.Errorf("lane %d is released while %s is in flight", msg.Lane.Number, copyOf(msg))
			}
		}
	}
	for _, l := range m.reading {
		if slices.Contains(lanes, l.Number) {
			return fmt.Errorf("lane %d is released while it is read", l.Number)
		}
	}
	return nil
}

func (m *monitor) reads(lanes []relaycore.Lane) error {
	for _, l := range lanes {
		if !m.owns(l) {
			return fmt.Errorf("lane %d is read in epoch %d, and owned in epoch %d", l.Number, l.Epoch, m.owned[l.Number])
		}
	}
	return nil
}

// sends checks a batch: its lanes are owned, of a key only one batch is in flight at once and in strict mode
// one message, what may have arrived is sent as a copy, and the rate is kept.
func (m *monitor) sends(b *relaycore.Batch, now relaycore.Time) error {
	d := m.dests[b.Dest]
	d.sends++
	d.numbers[b], m.flying[b] = d.sends, true
	if now < d.paused && now > m.probes {
		return fmt.Errorf("a batch is sent to %q %v before its pause ends", b.Dest, d.paused-now)
	}
	for _, msg := range b.Messages {
		if !m.owns(msg.Lane) {
			return fmt.Errorf("%s is sent in epoch %d of lane %d, which is owned in epoch %d", copyOf(msg), msg.Lane.Epoch, msg.Lane.Number, m.owned[msg.Lane.Number])
		}
		if n := d.among[msg]; n >= suspectAfter && !b.Alone {
			return fmt.Errorf("%s is sent with others although %d connections have ended under it", copyOf(msg), n)
		}
		if n := d.ended[msg]; n >= poisonProof {
			return fmt.Errorf("%s is sent although it has ended %d connections alone", copyOf(msg), n)
		}
		if m.unsure[msg] && !msg.Resent {
			return fmt.Errorf("%s is sent as for the first time, and may have arrived before", copyOf(msg))
		}
		if m.latest != nil && msg.Position < m.latest[msg.Tenant] {
			return fmt.Errorf("%s is sent after a later one of its tenant, and nothing has failed", copyOf(msg))
		}
		if m.latest != nil {
			m.latest[msg.Tenant] = msg.Position
		}
		if msg.Key == "" {
			continue
		}
		if other := m.units[unitOf(msg)]; other != nil && (other != b || m.cfg.Strict) {
			return fmt.Errorf("%s is sent while another message of its key is in flight", copyOf(msg))
		}
		m.units[unitOf(msg)] = b
	}
	return d.pace(len(b.Messages), now)
}

// pace checks that no more is sent in a second than the rate allows in 1.1 seconds.
func (d *evidence) pace(n int, now relaycore.Time) error {
	if d.rate == 0 {
		return nil
	}
	d.sent = slices.DeleteFunc(d.sent, func(t relaycore.Time) bool { return t <= now-time.Second })
	d.sent = append(d.sent, slices.Repeat([]relaycore.Time{now}, n)...)
	if most := 1.1*d.rate + 1; float64(len(d.sent)) > most {
		return fmt.Errorf("%d messages are sent in a second, the rate is %v", len(d.sent), d.rate)
	}
	return nil
}

// settles checks that a message is poison if, and only if, the connections that it has ended show it.
func (m *monitor) settles(list []relaycore.Settlement) error {
	for i := range list {
		st := &list[i]
		d := m.dests[st.Message.Dest]
		if st.Reason == waybill.ReasonPoison && d.alone[copyOf(st.Message)] < poisonProof {
			return fmt.Errorf("%s is taken for poison after %d connections that it has ended", copyOf(st.Message), d.alone[copyOf(st.Message)])
		}
	}
	return nil
}

// idle checks that the relay makes progress. free says that it has room for more and holds its lease.
func (m *monitor) idle(s relaycore.Stats, free bool, now relaycore.Time) error {
	if s.Lanes == 0 || !free {
		m.claimed = max(m.claimed, now)
	}
	if s.Lanes > 0 || len(m.flying) > 0 || s.Held == 0 {
		m.landed = max(m.landed, now)
	}
	if now-m.renewed >= m.cfg.LeaseTTL || s.Lanes == 0 {
		m.rested = now
	}
	switch {
	case now-m.renewed > mostIdle:
		return fmt.Errorf("the lease was not renewed for %v", now-m.renewed)
	case now-m.claimed > mostIdle:
		return fmt.Errorf("nothing was claimed for %v", now-m.claimed)
	case now-m.landed > landless:
		return fmt.Errorf("%d messages are held %v after the last lane was lost", s.Held, now-m.landed)
	}
	return nil
}

// stuck checks that a relay that can send or read nothing, while others may, releases its lanes to them:
// within three leases, whose wait it may have started late, a rest and a renewal.
func (m *monitor) stuck(now relaycore.Time) error {
	since := relaycore.Time(0)
	for _, d := range m.dests {
		switch {
		case d.follows:
		case d.failing == 0 || now-2*longestPause > d.failed:
			since = never
		default:
			since = max(since, d.failing)
		}
	}
	if m.unread > 0 {
		since = min(since, m.unread)
	}
	if since = max(since, m.rested); now > since && now-since > 6*m.cfg.LeaseTTL {
		return fmt.Errorf("lanes are kept although nothing gets done for %v", now-since)
	}
	return nil
}
