package relaycore

import (
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// Config configures a [Core]. All fields must be valid; package relay checks them.
type Config struct {
	Dests     []Dest
	Followers []Dest // get what was published
	BatchSize int    // most messages of a batch, for a destination that answers such batches fast
	Parallel  int    // batches in flight for each destination
	Strict    bool   // one message of a key in flight

	Retry         waybill.RetryPolicy
	NoDeadLetters bool
	Order         Order
	TopicOrder    map[string]Order
	MaxParked     int // messages
	MaxParkedKeys int

	LeaseTTL       time.Duration
	RenewInterval  time.Duration
	PublishTimeout time.Duration
	PollInterval   time.Duration
	CallTimeout    time.Duration // of a call to the store
	Seed           uint64        // of the jitter of delays
	Ahead          bool          // the store can look ahead
}

// Dest is a destination.
type Dest struct {
	Name string
	Rate float64 // messages per second, of all relays together; 0 means no limit
	Late bool    // confirms after PublishTimeout count
}

// Order says what happens to the later messages of a key when one fails.
type Order int

// The orders, as in package relay.
const (
	Block Order = iota // they wait until it is published or a dead letter
	Park               // they wait until the dead letter is requeued or resolved
	Skip               // they are sent
)

// Core is the state of a relay. [New] makes one. It is plain data, for one goroutine at a time.
type Core struct {
	cfg  Config
	now  Time
	out  []Command
	next Time

	lease   lease
	dests   []*dest
	byName  map[string]*dest
	lines   map[unit]*line
	spare   []*line
	held    held
	read    read
	settler settler
	aside   aside
	jitter  uint64

	stopping bool
	stats    Stats
}

// New returns the state of a relay that owns nothing yet.
func New(cfg Config) *Core {
	c := &Core{cfg: cfg, byName: make(map[string]*dest), lines: make(map[unit]*line), jitter: cfg.Seed}
	for _, d := range slices.Concat(cfg.Dests, cfg.Followers) {
		made := newDest(d)
		made.room = min(firstRoom, cfg.BatchSize)
		c.dests = append(c.dests, made)
		c.byName[d.Name] = made
	}
	c.settler.apart = make(map[group]*apart)
	c.read.weight = maxHeldBytes / cfg.BatchSize
	return c
}

// Config returns the configuration of the core.
func (c *Core) Config() Config { return c.cfg }

// Step processes an event and returns the commands that follow, in order. now must not go back. The
// slice is valid until the next call; what it points to is read-only.
func (c *Core) Step(now Time, e Event) []Command {
	c.now = max(now, c.now)
	c.out, c.next = c.out[:0], never
	e.apply(c)
	if c.stopping {
		c.drop(func(Lane) bool { return true })
	}
	c.watchBatches()
	c.renew()
	c.dispatch()
	c.claim()
	c.settle()
	return c.out
}

func (Tick) apply(*Core) {}

// Next returns when the core needs a [Tick] if no other event comes before.
func (c *Core) Next() Time { return c.next }

const never = Time(1<<63 - 1)

// before reports whether a time is in the future, and then requests a [Tick] for it: what is not done
// now for this reason is done in that step.
func (c *Core) before(t Time) bool {
	if t <= c.now {
		return false
	}
	c.next = min(c.next, t)
	return true
}

func (c *Core) do(cmd Command) { c.out = append(c.out, cmd) }

func (c *Core) report(r Report) { c.do(r) }

// random returns a number from 0 up to 1 of a fixed sequence (splitmix64, Steele et al. 2014).
func (c *Core) random() float64 {
	c.jitter += 0x9e3779b97f4a7c15
	z := c.jitter
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}

// apply begins a graceful stop: what is not, or no longer, in flight is left to other claims.
func (Stop) apply(c *Core) {
	c.stopping = true
	c.endAwait()
}

// Done reports, after a [Stop], whether nothing is in flight, except what the store refuses.
func (c *Core) Done() bool { return c.stopping && c.held.count <= c.settler.apartCount() }

// Stats are figures of a relay.
type Stats struct {
	Lanes        int
	LeaseUntil   Time
	Held         int // messages
	Bytes        int // of held messages
	Published    int64
	Retried      int64
	Dead         int64
	Parked       int
	ParkedKeys   int
	BackPressure bool
}

// Stats returns the current figures.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Lanes, s.LeaseUntil, s.Held, s.Bytes = len(c.lease.lanes), c.lease.until, c.held.count, c.held.bytes
	s.BackPressure = c.read.parked
	return s
}

// PausedDests returns the names of the destinations that have accepted nothing since their last failure.
func (c *Core) PausedDests() (names []string) {
	for _, d := range c.dests {
		if d.main.probing() {
			names = append(names, d.Name)
		}
	}
	return names
}
