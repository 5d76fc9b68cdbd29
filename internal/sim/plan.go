package main

import (
	"math/rand/v2"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// plan says what a run is made of. A seed makes one; a smaller one is tried to explain a failure.
type plan struct {
	Seed     uint64
	Lanes    int
	Messages int
	Keys     int
	Topics   int
	Relays   int
	Dests    []string
	Follower bool // a destination gets what was published
	Faults   float64
	Kinds    []string // faults of the whole system that happen
	For      time.Duration
	Batch    int
	Parallel int
	Strict   bool
	Park     bool
	Parked   int // most messages parked
	Retries  int
	Late     bool // late confirms count
	Rate     int  // messages per second; 0 means no limit
	Dedup    bool // the broker recognises copies
	Churn    bool // lanes change hands all the time, and answers take long
	Bursts   bool // messages come many at a time
	Dated    bool // some messages expire, some are for later
	Skewed   bool // the store's clock goes back
}

// kinds are the faults of the whole system.
var kinds = []string{"away", "slow", "heal", "crash", "pause", "stop", "requeue", "resolve", "stubborn", "poison", "skew"}

// churnKinds are those that let lanes change hands.
var churnKinds = []string{"crash", "pause", "stop", "away", "heal"}

// planOf returns the plan of a seed.
func planOf(seed uint64) plan {
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(list ...int) int { return list[random.IntN(len(list))] }
	yes := func() bool { return random.IntN(2) == 0 }
	p := plan{
		Seed: seed, Lanes: pick(1, 2, 4), Messages: pick(3, 10, 40), Keys: pick(1, 2, 5), Topics: pick(1, 1, 2, 3), Relays: pick(1, 2, 2, 3),
		Dests: [][]string{{""}, {""}, {"a", "b"}}[random.IntN(3)], Follower: random.IntN(6) == 0,
		Faults: []float64{0, 0.02, 0.1, 0.3}[random.IntN(4)], Kinds: kinds, For: 2 * time.Minute,
		Batch: pick(1, 3, 10), Parallel: pick(1, 2, 4), Strict: yes(), Park: yes(), Parked: pick(3, 1000), Retries: pick(1, 3),
		Late: yes(), Rate: pick(0, 0, 0, 50), Dedup: yes(), Bursts: yes(), Dated: random.IntN(3) == 0, Skewed: random.IntN(4) == 0,
	}
	if random.IntN(30) == 0 {
		p.Messages, p.For = 200, 20*time.Second
	}
	if p.Churn = p.Messages < 200 && random.IntN(3) == 0; p.Churn {
		p.For, p.Relays, p.Lanes, p.Kinds = 40*time.Second, pick(2, 3), pick(1, 2, 4), churnKinds
		p.Messages, p.Faults = pick(20, 40), max(p.Faults, 0.02)
	}
	p.Dated = p.Dated && !p.Skewed // what a date means is known by one clock only
	return p
}

const leaseTTL = 8 * time.Second

// config returns the settings of the plan's relays.
func (p *plan) config() relaycore.Config {
	retry, _ := waybill.RetryPolicy{MaxRetries: p.Retries}.WithDefaults()
	cfg := relaycore.Config{
		BatchSize: p.Batch, Parallel: p.Parallel, Strict: p.Strict, Retry: retry,
		MaxParked: p.Parked, MaxParkedKeys: 1000,
		LeaseTTL: leaseTTL, RenewInterval: 2 * time.Second, PublishTimeout: 4 * time.Second, PollInterval: 5 * time.Second,
		CallTimeout: leaseTTL, Seed: p.Seed, Ahead: true,
	}
	if p.Park { // the order of what is skipped is not promised
		cfg.Order = relaycore.Park
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

// bound is how long everything may take to drain once there are no faults any more; the comment of the
// package says why.
func (p *plan) bound() time.Duration {
	return 2*time.Minute + time.Duration(p.Lanes)*2*leaseTTL + time.Duration(p.Messages)*perMessage + time.Duration(p.Faults*float64(time.Minute))
}

const perMessage = time.Second

// mostHeld is how many messages a relay may hold: 50 batches that it has read ahead, those that others
// need not wait for (16 batches of isolated topics of a destination and its slow ones), and those that
// are only moved.
func (p *plan) mostHeld() int { return 3 * max(p.Batch, 50*p.Batch) }
