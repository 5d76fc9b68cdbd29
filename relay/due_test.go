package relay

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// TestRelay_ManyDue: of more messages that have come due than the relay moves at a time, all go
// at the poll that finds the first of them, be they scheduled or waiting for another attempt.
func TestRelay_ManyDue(t *testing.T) {
	t.Parallel()
	const count = 500
	for name, add := range map[string]func(src *fakeSource, m waybill.Message, due time.Time){
		"scheduled": (*fakeSource).schedule,
		"waiting":   (*fakeSource).wait,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, broker := newFakeSource(), &fakeBroker{}
			cfg := Config{BatchSize: 10, PollInterval: time.Minute}
			inBubble(t, src, []Destination{{Publisher: broker}}, cfg, func(t *testing.T, _ *Relay) {
				due := time.Now().Add(30 * time.Second)
				for n := range count {
					add(src, message("orders", "", n), due)
				}
				pass(65 * time.Second) // a poll, and far from the next one
				if n := len(broker.ids()); n != count {
					t.Errorf("%d messages were published at the poll, want all %d", n, count)
				}
			})
		})
	}
}

// TestRelay_PutOff: what wakes the relay between two polls does not put off its next look for
// scheduled messages.
func TestRelay_PutOff(t *testing.T) {
	t.Parallel()
	src, broker := newFakeSource(), &fakeBroker{}
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{PollInterval: time.Minute}, func(t *testing.T, _ *Relay) {
		src.schedule(message("orders", "", 1), time.Now().Add(30*time.Second))
		pass(50 * time.Second)
		src.add(message("orders", "", 2))
		pass(15 * time.Second)
		if got := broker.ids(); len(got) != 2 {
			t.Errorf("published after 65 seconds: %v, want the scheduled message too", got)
		}
		if src.looks > 3 {
			t.Errorf("%d looks for scheduled messages in 65 seconds, want one for each poll", src.looks)
		}
	})
}
