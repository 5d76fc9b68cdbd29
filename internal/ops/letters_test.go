package ops_test

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
)

func TestConsumers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	group := func(origin deadletter.Origin, consumer, fingerprint string, open int, at time.Time) deadletter.Group {
		return deadletter.Group{Origin: origin, Consumer: consumer, Fingerprint: fingerprint, Open: open, LastFailed: at, Trend: [24]int{23: open}}
	}
	rows := ops.Consumers([]deadletter.Group{
		group(deadletter.FromRelay, "", "r", 100, now),
		group(deadletter.FromConsumer, "billing", "b1", 5, now.Add(-time.Hour)),
		group(deadletter.FromConsumer, "mailer", "m1", 4, now.Add(-time.Hour)),
		group(deadletter.FromConsumer, "mailer", "m2", 3, now),
	})
	if len(rows) != 2 || rows[0].Name != "mailer" || rows[1].Name != "billing" {
		t.Fatalf("ops.Consumers() = %+v, want mailer before billing", rows)
	}
	if m := rows[0]; m.Open != 7 || m.Groups != 2 || m.Trend[23] != 7 || !m.LastFailed.Equal(now) || m.Worst.Fingerprint != "m1" {
		t.Errorf("ops.Consumers() has %+v", m)
	}
}
