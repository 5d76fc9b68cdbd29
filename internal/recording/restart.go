package recording

import (
	"fmt"
	"reflect"
	"time"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// restartPoint is a point where replaying begins: the state of the core after a step.
type restartPoint struct {
	Layout  uint64
	Version string
	Run     uint64 // of the relay
	Began   int64  // when it began, in nanoseconds since 1970
	Step    uint64 // the step after which it was made
	Now     relaycore.Time
	Hashed  bool // keys and tenants are hashes
	Core    *relaycore.Core
	Batches *batches
}

// restartPoint codes a restart point.
func (c *coder) restartPoint(p *restartPoint) {
	c.uint(&p.Layout)
	c.text(&p.Version)
	if c.reading && c.err == nil && p.Layout != layout() {
		c.err = fmt.Errorf("%w, %q; replay it with that one (this is %q)", errOtherVersion, p.Version, version())
		return
	}
	c.uint(&p.Run)
	number(c, &p.Began)
	c.uint(&p.Step)
	number(c, &p.Now)
	c.flags(&p.Hashed)
	g := graph{coder: c}
	p.Core = g.core(p.Core)
	c.inFlight(&g, p)
	if c.reading && c.err == nil {
		checkConfig(c, p.Core.Config())
	}
}

// inFlight codes the numbers of the batches in flight in the state of the core.
func (c *coder) inFlight(g *graph, p *restartPoint) {
	was := batches{next: 1}
	if !c.reading {
		was = *p.Batches
	}
	now := batches{numbers: make(map[*relaycore.Batch]uint64), next: was.next}
	for _, o := range g.objects {
		if o.Type() != batchType {
			continue
		}
		b := (*relaycore.Batch)(o.UnsafePointer())
		n := was.numbers[b]
		if n == 0 && !c.reading { // it was sent while nothing was recorded
			n = now.next
			now.next++
		}
		c.uint(&n)
		now.numbers[b] = n
	}
	c.uint(&now.next)
	if c.reading {
		p.Batches = &now
	} else {
		*p.Batches = now
	}
}

var batchType = reflect.TypeFor[*relaycore.Batch]()

// checkConfig refuses settings by which a core would use memory without bounds, or divide by nothing.
func checkConfig(c *coder, cfg relaycore.Config) {
	durations := []time.Duration{cfg.LeaseTTL, cfg.RenewInterval, cfg.PublishTimeout, cfg.PollInterval, cfg.CallTimeout}
	for _, d := range durations {
		if d <= 0 {
			c.failf("a duration of the configuration is %v", d)
		}
	}
	if cfg.BatchSize < 1 || cfg.BatchSize > 10_000 || cfg.Parallel < 1 || cfg.Parallel > 64 {
		c.failf("the configuration has batches of %d, %d of them at a time", cfg.BatchSize, cfg.Parallel)
	}
}
