package consumer

import (
	"errors"
	"testing"
	"time"

	"github.com/waybill-go/waybill/inbox"
)

// TestBusyKeys: a message that stays held comes again ever more seldom, and counts for Health once no
// handler can be the one that holds it, until it is free or has not been seen for a while.
func TestBusyKeys(t *testing.T) {
	t.Parallel()
	const limit = 40 * time.Second
	var b busyKeys
	key := inbox.Key{Message: "m"}
	now := time.Unix(1000, 0)
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		wait, err := b.note(key, now, limit)
		if wait != want*time.Second {
			t.Fatalf("note() = %v, want %v", wait, want*time.Second)
		}
		if held := now.Sub(time.Unix(1000, 0)) > limit; errors.Is(err, errHeld) != held || errors.Is(b.health("c", now, limit), errHeld) != held {
			t.Fatalf("note() = %v, health() = %v, want an error: %v", err, b.health("c", now, limit), held)
		}
		now = now.Add(wait)
	}
	if _, err := b.note(key, now, limit); err != nil {
		t.Errorf("note() = %v, want nil: it was reported less than a minute ago", err)
	}
	if err := b.health("c", now.Add(2*time.Minute), limit); err != nil {
		t.Errorf("health() = %v of what was not seen since, want nil", err)
	}
	b.free(key)
	if wait, err := b.note(key, now, limit); wait != time.Second || err != nil || b.health("c", now, limit) != nil {
		t.Errorf("note() after free = %v, %v, want 1s and nil", wait, err)
	}
}
