package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

const (
	// parkedInterval is how often the relay counts what is parked, at most. Where counting
	// is slow it takes no more than a twentieth of the time.
	parkedInterval = time.Second
	parkedShare    = 20
)

// parkedWatch compares what is parked in the relay's lanes with the limits. It is used by the
// claim loop only.
type parkedWatch struct {
	due  time.Time // of the next count
	full bool
}

// backPressure reports whether so much is parked that no new message may be claimed. It
// counts if a policy parks and it is time to; a begin and an end are observed.
func (r *Relay) backPressure(ctx context.Context) (bool, error) {
	began := time.Now()
	if !r.cfg.parks() || began.Before(r.parked.due) {
		return r.parked.full, nil
	}
	keys, messages, err := r.src.CountParked(ctx, r.lanes.all())
	if err != nil {
		return r.parked.full, fmt.Errorf("count parked messages: %w", err)
	}
	r.parked.due = time.Now().Add(max(parkedInterval, parkedShare*time.Since(began)))
	over := r.cfg.overParked(keys, messages)
	changed := (over != nil) != r.parked.full
	r.parked.full = over != nil
	r.totals.add(func(s *Status) { s.ParkedKeys, s.Parked, s.BackPressure = keys, messages, over != nil })
	if changed {
		r.observe(ctx, waybill.Event{Op: waybill.OpBackPressure, Count: messages, Err: over})
	}
	return r.parked.full, nil
}

// overParked returns which limit is reached, nil if none is.
func (c *Config) overParked(keys, messages int) error {
	switch {
	case messages >= c.MaxParkedMessages:
		return fmt.Errorf("%d messages are parked behind dead letters, the limit is %d; nothing new is claimed", messages, c.MaxParkedMessages)
	case keys >= c.MaxParkedKeys:
		return fmt.Errorf("%d keys are parked behind dead letters, the limit is %d; nothing new is claimed", keys, c.MaxParkedKeys)
	}
	return nil
}

// nap shortens a sleep of the claim loop while there is back-pressure, so that its end is
// noticed.
func (w *parkedWatch) nap(limit time.Duration) time.Duration {
	if !w.full {
		return limit
	}
	return min(limit, max(0, time.Until(w.due)))
}
