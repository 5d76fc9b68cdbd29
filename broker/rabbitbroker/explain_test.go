package rabbitbroker

import (
	"slices"
	"testing"

	"github.com/waybill-go/waybill/guarantee"
)

func TestQueueFacts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		queueType string
		server    version
		value     string
		stronger  []string
	}{
		{ClassicQueue, version{4, 1}, ClassicQueue, []string{"x-queue-type: quorum"}},
		{QuorumQueue, version{3, 10}, QuorumQueue, []string{"", "three nodes or more"}},
		{QuorumQueue, version{}, QuorumQueue, []string{"", "three nodes or more"}},
		{QuorumQueue, version{4, 1}, QuorumQueue, []string{"", "three nodes or more", "delivery-limit: high, by a policy, with a dead-letter exchange"}},
		{"", version{3, 10}, QuorumQueue, []string{"", "three nodes or more"}},
		{"", version{3, 7}, ClassicQueue, []string{"x-queue-type: quorum"}},
	} {
		facts := topology{queueType: test.queueType, server: test.server}.queueFacts()
		var stronger []string
		for _, f := range facts {
			stronger = append(stronger, f.Stronger)
		}
		// More than a loss of power is survived by clusters only, and AMQP does not tell of them.
		if facts[0].Value != test.value || facts[0].Survives != guarantee.PowerLoss || !slices.Equal(stronger, test.stronger) {
			t.Errorf("%q on %v: %+v, want %s, which survives a power loss, and %q", test.queueType, test.server, facts, test.value, test.stronger)
		}
		for _, f := range facts[1:] {
			if f.Survives != guarantee.Unknown {
				t.Errorf("%q on %v: %+v is claimed and not known", test.queueType, test.server, f)
			}
		}
	}
}
