package dashboard

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/waybill-go/waybill/internal/ops"
)

const (
	checkEvery   = time.Minute // minimum interval, while somebody looks
	checkTimeout = time.Minute
)

// checks caches the findings of the program's own checks. They run in the background, so
// that no view waits for them.
type checks struct {
	make   func(ctx context.Context) []Finding // nil if there are none
	logger *slog.Logger

	mu    sync.Mutex
	busy  bool
	found []ops.Finding // the worst first
	at    time.Time     // zero until they have run once
}

// get returns the latest findings, and their time. If that is long ago, it starts the checks
// again; they outlive the request.
func (k *checks) get(ctx context.Context) (found []ops.Finding, at time.Time) {
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
	slices.SortStableFunc(found, ops.ByGravity)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy, k.found, k.at = false, found, time.Now()
}

// run runs the checks. A panic in them is a finding, not the end of the process.
func (k *checks) run(ctx context.Context) (found []ops.Finding) {
	defer func() {
		if v := recover(); v != nil {
			k.logger.Error("dashboard: the checks panicked", "panic", v, "stack", string(debug.Stack()))
			found = []ops.Finding{{Severity: ops.Problem, Subject: "checks", Found: "They could not be made", Advice: "The log of this process says why."}}
		}
	}()
	for _, f := range k.make(ctx) {
		found = append(found, findingOf(f))
	}
	return found
}

// findingOf converts a finding of the program's own checks for the pages.
func findingOf(f Finding) ops.Finding {
	return ops.Finding{Severity: ops.Severity(f.Level), Subject: f.Check, Found: f.Detail, Advice: f.Advice}
}

// checksPage shows every finding of the program's own checks.
func (d *Dashboard) checksPage(c *call) error {
	found, at := d.checks.get(c.r.Context())
	return c.show(http.StatusOK, "checks", "Checks", struct {
		Findings []ops.Finding
		Worst    ops.Severity
		At       time.Time
	}{found, ops.Worst(found), at})
}
