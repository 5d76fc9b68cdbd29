package dashboard

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

const (
	checkEvery   = time.Minute // at most so often, while somebody looks
	checkTimeout = time.Minute
)

// checks keeps the findings of the program's own. They are made in the background, so that
// no view waits for them.
type checks struct {
	make   func(ctx context.Context) []Finding // nil if there are none
	logger *slog.Logger

	mu    sync.Mutex
	busy  bool
	found []Finding // the worst first
	at    time.Time // zero until they were made once
}

// get returns what was found last, and when. If that is long ago, it lets the checks be made
// anew; they outlive the request that has asked.
func (k *checks) get(ctx context.Context) (found []Finding, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.make != nil && !k.busy && time.Since(k.at) >= checkEvery {
		k.busy = true
		go k.refresh(context.WithoutCancel(ctx))
	}
	return k.found, k.at
}

func (k *checks) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found := k.run(ctx)
	slices.SortStableFunc(found, byGravity)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy, k.found, k.at = false, found, time.Now()
}

// run makes the checks. A panic in them is a finding, not the end of the process.
func (k *checks) run(ctx context.Context) (found []Finding) {
	defer func() {
		if v := recover(); v != nil {
			k.logger.Error("dashboard: the checks panicked", "panic", v, "stack", string(debug.Stack()))
			found = []Finding{{Fail, "checks", "They could not be made", "The log of this process says why."}}
		}
	}()
	return slices.Clone(k.make(ctx))
}

// levels are all there are, the gravest last.
var levels = []Level{OK, Note, Warn, Fail}

// gravity orders levels; one that is not known is above all others.
func gravity(l Level) int {
	if i := slices.Index(levels, l); i >= 0 {
		return i
	}
	return len(levels)
}

// byGravity puts the worst first.
func byGravity(a, b Finding) int { return cmp.Compare(gravity(b.Level), gravity(a.Level)) }

func worst(findings []Finding) Level {
	level := OK
	for _, f := range findings {
		if f.Level != Note && gravity(f.Level) > gravity(level) {
			level = f.Level
		}
	}
	return level
}

// isTrouble reports whether somebody should look at a finding.
func isTrouble(f Finding) bool { return gravity(f.Level) >= gravity(Warn) }

// checksPage shows every finding of the program's own.
func (d *Dashboard) checksPage(c *call) error {
	if d.cfg.Checks == nil {
		return errNoPage
	}
	found, at := d.checks.get(c.r.Context())
	return c.show(http.StatusOK, "checks", "Checks", struct {
		Findings []Finding
		Worst    Level
		At       time.Time
	}{found, worst(found), at})
}
