package kafkabroker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestOutbox_Rest closes the producers of lanes that were not used for long, and no others.
func TestOutbox_Rest(t *testing.T) {
	t.Parallel()
	client, err := kgo.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	cfg := Config{URL: "kafka://127.0.0.1:1", TransactionalID: "x"}
	o := newOutbox(cfg, client, newTopics(cfg, nil))
	sessions := make(map[int]*laneSession)
	for n, used := range map[int]time.Time{1: time.Now(), 2: time.Now().Add(-2 * laneIdle), 3: time.Now().Add(-2 * laneIdle)} {
		s, err := o.newSession(n)
		if err != nil {
			t.Fatal(err)
		}
		sessions[n] = s
		o.lanes[n] = &lane{number: n, session: s, used: used}
	}
	busy := &turn{done: make(chan struct{})}
	o.lanes[3].last = busy
	o.mu.Lock()
	o.rest()
	o.mu.Unlock()
	for n, want := range map[int]bool{1: false, 2: true, 3: false} {
		if ended := sessions[n].ctx.Err() != nil; ended != want {
			t.Errorf("the session of lane %d has ended: %v, want %v", n, ended, want)
		}
	}
	if len(o.lanes) != 2 || o.lanes[2] != nil {
		t.Errorf("lanes %v are kept, want 1 and 3", o.lanes)
	}
	o.close()
}
