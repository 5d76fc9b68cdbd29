package dashboard

import (
	"sync"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
)

// runningReplay is a running replay.
type runningReplay struct {
	deadletter.Replay
	Idle string // why it does not get on, "" if it does
}

// running returns those of the replays that run.
func (d *Dashboard) running(replays []deadletter.Replay, noRelay bool) []runningReplay {
	var list []runningReplay
	for _, r := range replays {
		if r.State == deadletter.Running {
			list = append(list, runningReplay{r, d.idle(r, noRelay)})
		}
	}
	return list
}

// idle says why a running replay does not advance, "" if it does.
func (d *Dashboard) idle(r deadletter.Replay, noRelay bool) string {
	return ops.Idle(&r, d.replayed.still(r), noRelay)
}

// progress remembers when replays that are being viewed last advanced: the store keeps
// only their progress.
type progress struct {
	mu   sync.Mutex
	seen map[int64]step
}

type step struct {
	done int // requeued or skipped
	at   time.Time
}

func newProgress() *progress { return &progress{seen: make(map[int64]step)} }

// still returns how long a replay has not advanced, as far as it was viewed.
func (p *progress) still(r deadletter.Replay) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known := p.seen[r.Number]
	done := r.Requeued + r.Skipped
	switch {
	case r.State != deadletter.Running:
		delete(p.seen, r.Number)
		return 0
	case known && last.done == done:
		return time.Since(last.at)
	case len(p.seen) >= replaysShown:
		clear(p.seen) // more are not shown; those that are start over
	}
	last = step{done, time.Now()}
	if done == 0 {
		last.at = r.StartedAt
	}
	p.seen[r.Number] = last
	return time.Since(last.at)
}
