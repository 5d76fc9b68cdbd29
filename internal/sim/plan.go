package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// plan is the configuration of a run. It is made from a seed; a smaller one is tried to explain a failure.
type plan struct {
	Seed       uint64
	Lanes      int
	Messages   int
	Keys       int
	Topics     int
	Tenants    int
	Relays     int
	Readers    int // processes of the consumer of each destination
	Limit      int // of messages in the queue of a consumer; 0 means none
	Dests      []string
	Follower   bool // a destination receives what was published
	Faults     float64
	Kinds      []string // faults of the whole system that occur
	For        time.Duration
	TTL        time.Duration // of leases; the other times follow from it
	Poll       time.Duration
	Batch      int
	Parallel   int
	Strict     bool
	Order      relaycore.Order
	Mixed      bool // topics have orders of their own
	Parked     int  // most messages parked
	ParkedKeys int
	Retries    int
	Unkept     bool // there are no dead letters
	Ahead      bool // the store can look ahead
	Late       bool // late confirms count
	Rate       int  // messages per second; 0 means no limit
	Dedup      bool // the broker recognises copies
	Churn      bool // lanes change hands all the time, and answers take long
	Slow       bool // the answers to claims take long
	Rough      bool // many messages of a batch are refused or not answered
	Bursts     bool // messages arrive in bursts
	Backlog    bool // one tenant enqueues many messages, then another one a few
	Dated      bool // some messages expire, some are for later
	Large      bool // some messages are large
	Odd        bool // some do not decode, have no route, or cannot be routed
	Routed     bool // some messages go to one of several destinations only
	Skewed     bool // the store's clock goes back
}

// kinds are the faults of the whole system.
var kinds = []string{
	"away", "slow", "heal", "crash", "pause", "stop", "visit", "jump", "requeue", "resolve", "replay", "stubborn", "poison", "skew", "reader", "cut", "blind",
}

// churnKinds are those that make lanes change hands.
var churnKinds = []string{"crash", "pause", "stop", "visit", "visit", "away", "heal", "jump"}

// slowKinds are those that make relays join and leave while claims are running.
var slowKinds = []string{"visit", "visit", "visit", "stop", "crash", "pause"}

// planOf returns the plan of a seed.
func planOf(seed uint64) plan {
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(list ...int) int { return list[random.IntN(len(list))] }
	yes := func() bool { return random.IntN(2) == 0 }
	one := func(n int) bool { return random.IntN(n) == 0 }
	p := plan{
		Seed: seed, Lanes: pick(1, 2, 4, 8), Messages: pick(3, 10, 40), Keys: pick(1, 2, 5), Topics: pick(1, 1, 2, 3), Tenants: pick(1, 2, 3),
		Relays: pick(1, 2, 2, 3), Readers: pick(0, 0, 1, 2), Dests: [][]string{{""}, {""}, {"a", "b"}}[random.IntN(3)], Follower: one(6),
		Faults: []float64{0, 0.02, 0.1, 0.3}[random.IntN(4)], Kinds: kinds, For: 2 * time.Minute,
		TTL: time.Duration(pick(6, 8, 8, 12)) * time.Second, Poll: time.Duration(pick(1, 5, 5)) * time.Second,
		Batch: pick(1, 3, 10), Parallel: pick(1, 2, 4), Strict: yes(), Order: relaycore.Order(pick(0, 0, 1, 1, 2)), Mixed: one(6),
		Parked: pick(3, 1000), ParkedKeys: pick(2, 1000, 1000), Retries: pick(waybill.NoRetries, 1, 3, 3), Unkept: one(10), Ahead: yes(),
		Late: yes(), Rate: pick(0, 0, 0, 10, 50), Dedup: yes(), Rough: one(6), Bursts: yes(),
		Dated: one(3), Large: one(8), Odd: one(6), Routed: one(2), Skewed: one(4),
	}
	if p.Readers > 0 {
		p.Limit = pick(0, 0, 5)
	}
	if one(30) {
		p.Messages, p.For = 200, 20*time.Second
	}
	if p.Churn = p.Messages < 200 && one(3); p.Churn {
		p.For, p.Relays, p.Kinds = 40*time.Second, pick(2, 3), churnKinds
		p.Messages, p.Faults = pick(20, 40), max(p.Faults, 0.02)
	}
	if p.Slow = p.Churn && yes(); p.Slow {
		p.Kinds, p.Keys, p.Batch, p.Parallel, p.Bursts = slowKinds, pick(1, 2), pick(1, 3), 1, true
	}
	if p.Rough {
		p.Keys, p.Topics, p.Batch, p.Bursts, p.Strict, p.Faults = pick(1, 2), 1, pick(3, 10), true, false, max(p.Faults, 0.02)
	}
	p.Dated = p.Dated && !p.Skewed // dates need a clock that does not go back
	if one(40) {
		p.quiet()
	}
	return p
}

// quiet makes a plan without faults, in which a small tenant enqueues behind a large one.
func (p *plan) quiet() {
	*p = plan{
		Seed: p.Seed, Lanes: p.Lanes, Messages: 400, Topics: 2, Tenants: 2, Relays: 1, Dests: []string{""}, For: 20 * time.Second,
		TTL: p.TTL, Poll: p.Poll, Batch: min(p.Batch, 3), Parallel: p.Parallel, Strict: p.Strict, Parked: 1000, ParkedKeys: 1000, Retries: 1,
		Ahead: true, Backlog: true,
	}
}

// config returns the settings of the plan's relays.
func (p *plan) config() relaycore.Config {
	retry, _ := backoff.WithDefaults(waybill.RetryPolicy{MaxRetries: p.Retries})
	cfg := relaycore.Config{
		BatchSize: p.Batch, Parallel: p.Parallel, Strict: p.Strict, Retry: retry, NoDeadLetters: p.Unkept, Order: p.Order,
		MaxParked: p.Parked, MaxParkedKeys: p.ParkedKeys,
		LeaseTTL: p.TTL, RenewInterval: p.TTL / 4, PublishTimeout: p.TTL / 2, PollInterval: p.Poll,
		CallTimeout: p.TTL, Seed: p.Seed, Ahead: p.Ahead,
	}
	if p.Mixed {
		cfg.TopicOrder = map[string]relaycore.Order{"t0": (p.Order + 1) % 3, "t1": (p.Order + 2) % 3}
	}
	for _, d := range p.Dests {
		cfg.Dests = append(cfg.Dests, relaycore.Dest{Name: d, Late: p.Late, Rate: float64(p.Rate)})
	}
	if p.Follower {
		cfg.Followers = []relaycore.Dest{{Name: follower}}
	}
	return cfg
}

// all returns every destination.
func (p *plan) all() []string {
	if p.Follower {
		return append(p.Dests[:len(p.Dests):len(p.Dests)], follower)
	}
	return p.Dests
}

// tenant returns the tenant of message n.
func (p *plan) tenant(n int, random *rand.Rand) string {
	switch {
	case !p.Backlog:
		return fmt.Sprint("x", random.IntN(p.Tenants))
	case n < p.Messages-smallTenant:
		return "x0"
	}
	return "x1"
}

// smallTenant is how many messages the small tenant enqueues.
const smallTenant = 5

// bound is how long everything may take to drain once the faults have ended, if the store's clock has gone back
// by back; the comment of the package says why.
func (p *plan) bound(back time.Duration) time.Duration {
	return time.Minute + time.Duration(8+2*p.Lanes)*p.TTL + time.Duration(p.Messages)*perMessage + time.Duration(p.Faults*float64(time.Minute)) + back
}

const perMessage = time.Second

// mostHeld is how many messages a relay may hold: 50 batches that it has read ahead, those that block no others
// (16 batches of isolated topics of a destination and its slow ones), and those that are only moved.
func (p *plan) mostHeld() int { return 3 * max(p.Batch, 50*p.Batch) }

// mostBytes is the size of the messages that a relay may hold: 20 MiB, and the message that exceeds it.
const mostBytes = 20<<20 + largest

// largest is the size of the largest message.
const largest = 6 << 20
