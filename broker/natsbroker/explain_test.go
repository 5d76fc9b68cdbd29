package natsbroker

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill/guarantee"
)

func TestStreamFacts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		stream jetstream.StreamConfig
		least  guarantee.Survives
		untold bool
	}{
		{"one file", jetstream.StreamConfig{Replicas: 1}, guarantee.ProcessCrash, true},
		{"three files", jetstream.StreamConfig{Replicas: 3}, guarantee.NodeLoss, true},
		{"memory", jetstream.StreamConfig{Replicas: 1, Storage: jetstream.MemoryStorage}, guarantee.Nothing, false},
		{"drops the oldest", jetstream.StreamConfig{Replicas: 3, MaxBytes: 1}, guarantee.Nothing, true},
		{"refuses the newest", jetstream.StreamConfig{Replicas: 3, MaxBytes: 1, Discard: jetstream.DiscardNew}, guarantee.NodeLoss, true},
	} {
		least, untold := guarantee.NodeLoss, false
		for _, f := range streamFacts(&test.stream) {
			switch {
			case f.About != guarantee.Durability:
			case f.Survives == guarantee.Unknown:
				untold = true
			default:
				least = min(least, f.Survives)
			}
		}
		if least != test.least || untold != test.untold {
			t.Errorf("%s: survives %d, something is not told: %v, want %d, %v", test.name, least, untold, test.least, test.untold)
		}
	}
}
