package relay

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
)

// nameInterval is how often a relay checks whether another one has its name.
const nameInterval = time.Minute

// nameWatch detects another relay of the same name: only this relay may renew its lease between two
// of its renewals. Only the renewal loop may use it, except for taken.
type nameWatch struct {
	relays  inspect.Relays // nil if the source is none
	due     time.Time
	expires time.Time // of the lease, as last renewed; zero if it was not checked
	taken   atomic.Bool
}

// nameBefore checks, before a renewal, whether another relay has renewed the lease since.
func (r *Relay) nameBefore(ctx context.Context) {
	w := &r.name
	if w.expires.IsZero() {
		return
	}
	now, ok := r.ownExpiry(ctx)
	if ok {
		w.taken.Store(now.After(w.expires)) // it is earlier if others have shortened it, because the store's clock was set back
	}
	if w.taken.Load() {
		r.observe(ctx, observe.Event{Op: observe.OpLoop, Loop: "relay lease", Err: r.nameTaken()})
	}
	w.expires, w.due = time.Time{}, time.Now().Add(nameInterval)
}

// nameAfter records, after a renewal, until when the lease is valid.
func (r *Relay) nameAfter(ctx context.Context) {
	w := &r.name
	switch {
	case w.relays == nil || time.Now().Before(w.due):
		return
	case w.due.IsZero(): // the first check is an interval after the start
		w.due = time.Now().Add(nameInterval)
		return
	}
	w.expires, _ = r.ownExpiry(ctx)
}

// nameTaken returns an error if another relay has the same name.
func (r *Relay) nameTaken() error {
	if !r.name.taken.Load() {
		return nil
	}
	return fmt.Errorf("another relay has the name %q, too: they own the same lanes, and messages are published twice; give each a Node of its own", r.cfg.Node)
}

// ownExpiry returns when the relay's lease ends by the store's clock, and false if that is not known.
func (r *Relay) ownExpiry(ctx context.Context) (time.Time, bool) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.LeaseTTL-r.cfg.PublishTimeout)
	defer cancel()
	states, err := r.name.relays.RelayStates(ctx)
	if err != nil {
		return time.Time{}, false // renewals report a store that does not answer
	}
	for _, s := range states {
		if s.Node == r.cfg.Node {
			return s.ExpiresAt, true
		}
	}
	return time.Time{}, false
}
