// Package demo shows the main job of waybill in one run: a shop commits orders together with
// their messages, a relay publishes these to a broker, and two consumers act on them, while
// processes are killed, messages are published twice and handlers fail. Finally a ledger is
// drawn up from the tables and the broker.
//
// It is also an example of how the parts fit together. Read shop.go (outbox), relay.go,
// consumers.go (inbox); then faults.go, which breaks them, and ledger.go, which counts.
// servers.go and broker.go provide store and broker, process.go runs the shop and the relay
// as separate processes, so that they can be killed for real.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// The parts that [Config.Break] can remove.
const (
	BreakNothing = ""
	BreakInbox   = "inbox"  // handlers run for every delivery
	BreakOutbox  = "outbox" // the shop publishes after its commit, not in it
)

// Config configures the demo.
type Config struct {
	// Store and Broker are URLs of real servers; an empty one means an embedded one.
	Store, Broker string

	// Servers opens Store and Broker; nil if both are empty.
	Servers Servers

	// Orders is how many orders the shop commits, 1 to 1,000,000.
	Orders int

	// Break is the part to remove, to see what it is for.
	Break string

	// Output receives the progress; Live says that it is a terminal.
	Output io.Writer
	Live   bool

	name string // of the site; a random one if empty
}

// DefaultOrders is a number of orders that shows everything in a few seconds.
const DefaultOrders = 500

const maxOrders = 1_000_000

// Check returns what is wrong with the numbers and names in cfg, by the flags that set them.
func (c Config) Check() error {
	switch {
	case c.Orders < 1 || c.Orders > maxOrders:
		return fmt.Errorf("--orders is %d, the range is 1 to %d", c.Orders, maxOrders)
	case c.Break != BreakNothing && c.Break != BreakInbox && c.Break != BreakOutbox:
		return fmt.Errorf("--break is %q; it is %s or %s", c.Break, BreakInbox, BreakOutbox)
	}
	return nil
}

// The numbers of the faults.
const (
	relayDeaths  = 2
	shopDeaths   = 2
	twiceEvery   = 10 // every tenth message is published twice
	failEvery    = 50 // the handlers fail for every fiftieth order …
	failAttempts = 2  // … twice
)

const cleanupTimeout = 30 * time.Second

// Run shows the demo and returns its ledger. The error says why it could not be shown; a
// ledger that does not balance is not an error.
func Run(ctx context.Context, cfg Config) (ledger *Ledger, err error) {
	if cfg.Broker != "" {
		if err := cfg.Servers.Check(cfg.Broker); err != nil {
			return nil, err
		}
	}
	servers, err := openServers(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		err = errors.Join(err, servers.remove(clean))
	}()
	s := &show{cfg: cfg, servers: servers, telling: newTelling(cfg.Output, cfg.Live)}
	return s.run(ctx)
}

// show is one run of the demo.
type show struct {
	cfg     Config
	servers *servers
	telling *telling
}

func (s *show) run(ctx context.Context) (*Ledger, error) {
	began := time.Now()
	s.introduce()
	consumers, err := startConsumers(ctx, s.servers, s.cfg.Break)
	if err != nil {
		return nil, err
	}
	deaths, err := s.work(ctx)
	if err := errors.Join(err, consumers.stop()); err != nil {
		return nil, err
	}
	s.telling.end()
	ledger, err := s.servers.count(ctx, s.cfg)
	if err != nil {
		return nil, err
	}
	ledger.Killed, ledger.Seconds = deaths, time.Since(began).Seconds()
	return ledger, nil
}

// work lets the shop sell and the relay publish, each in a process of its own that is killed
// and started again, until nothing changes any longer.
func (s *show) work(ctx context.Context) (Deaths, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	relay := s.start(ctx, "relay", relayDeaths, max(s.cfg.Orders/5, 1))
	shop := s.start(ctx, "shop", shopDeaths, max(s.cfg.Orders/3, 1))
	err := s.watch(ctx, shop, relay)
	cancel() // the relay, and the shop if it has not ended
	<-relay.done
	<-shop.done
	if err == nil {
		err = errors.Join(shop.err, relay.err)
	}
	return Deaths{Shop: shop.deaths, Relay: relay.deaths}, err
}

// start starts a worker that dies the given number of times. Without the outbox there is
// nothing for a relay to do, and none is started.
func (s *show) start(ctx context.Context, role string, deaths, dieAfter int) *worker {
	w := newWorker(role, task{Site: s.servers.site, Orders: s.cfg.Orders, Break: s.cfg.Break})
	if role == "relay" && s.cfg.Break == BreakOutbox {
		close(w.done)
		return w
	}
	w.plan(deaths, dieAfter)
	w.died = func() { s.telling.say("The %s was killed %s, and is started again.", role, momentOfDeath[role]) }
	go w.run(ctx)
	return w
}

// momentOfDeath says when a worker kills its own process.
var momentOfDeath = map[string]string{
	"relay": "after the broker had confirmed and before it could note that down",
	"shop":  "right after a commit",
}

func (s *show) introduce() {
	t := s.telling
	t.say("store   %s", s.servers.storeText)
	t.say("broker  %s", s.servers.brokerText)
	victims := "the processes of shop and relay are each"
	if s.cfg.Break == BreakOutbox {
		victims = "the shop's process is" // there is nothing for a relay to do
	}
	t.say("faults  %s killed twice (SIGKILL), at the worst moment;", victims)
	t.say("        every %dth message is published twice;", twiceEvery)
	t.say("        billing and shipping fail twice for every %dth order", failEvery)
	switch s.cfg.Break {
	case BreakInbox:
		t.say("broken  the inbox is taken away: handlers run for every delivery")
	case BreakOutbox:
		t.say("broken  the outbox is taken away: the shop commits first and publishes then")
	}
	t.say("")
}

// How long nothing may change before the show is over: everything has arrived and duplicates
// may still be in flight, something is missing, or something is stuck.
const (
	restWhenDone    = time.Second
	restWhenMissing = 3 * time.Second
	restWhenStuck   = 30 * time.Second
	watchInterval   = 100 * time.Millisecond
)

// watch prints progress, until nothing changes any longer.
func (s *show) watch(ctx context.Context, shop, relay *worker) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	var last progress
	changed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-relay.failed:
			return relay.err
		case <-shop.failed:
			return shop.err
		case <-tick.C:
		}
		now, err := s.servers.progress(ctx)
		if err != nil {
			return err
		}
		s.telling.show(now, s.cfg.Orders)
		if now != last {
			last, changed = now, time.Now()
		}
		if over(now, shop.hasEnded(), time.Since(changed)) {
			return nil
		}
	}
}

// over reports whether the show is over.
func over(p progress, shopEnded bool, rest time.Duration) bool {
	switch {
	case rest > restWhenStuck:
		return true // the ledger will say what is missing
	case !shopEnded || p.Waiting > 0 || p.Backlog > 0:
		return false
	case p.Invoices >= p.Orders && p.Parcels >= p.Orders:
		return rest > restWhenDone
	}
	return rest > restWhenMissing
}
