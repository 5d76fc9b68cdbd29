package rabbitbroker

import (
	"testing"

	"github.com/waybill-go/waybill/guarantee"
)

func TestQueueFacts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		queueType, version string
		survives           guarantee.Survives
		facts              int
	}{
		{ClassicQueue, "4.1.0", guarantee.PowerLoss, 1},
		{QuorumQueue, "3.10.8", guarantee.NodeLoss, 1},
		{QuorumQueue, "4.1.0", guarantee.NodeLoss, 2},
		{QuorumQueue, "", guarantee.NodeLoss, 1},
	} {
		facts := queueFacts(test.queueType, test.version)
		if len(facts) != test.facts || facts[0].Survives != test.survives {
			t.Errorf("%s on %s: %+v, want %d facts, the first of %d", test.queueType, test.version, facts, test.facts, test.survives)
		}
	}
}
