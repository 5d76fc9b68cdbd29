package consumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

const day = 24 * time.Hour

// keepingFor is a subscriber that keeps messages for so long.
type keepingFor struct{ bound time.Duration }

func (keepingFor) Subscribe(context.Context, int, func(contract.Delivery)) error { return nil }
func (k keepingFor) Redelivery() contract.Redelivery                             { return contract.Redelivery{Bound: k.bound} }

// noInbox is an inbox that nobody uses.
type noInbox struct{ contract.Inbox[int] }

func TestNew_RefusesShortRetention(t *testing.T) {
	t.Parallel()
	h := func(context.Context, int, *waybill.Message) error { return nil }
	for _, tt := range []struct {
		name string
		sub  contract.Subscriber
		cfg  Config
		ok   bool
	}{
		{"the default", keepingFor{6 * day}, Config{}, true},
		{"as long as the default, and the relay's retries", keepingFor{7 * day}, Config{}, false},
		{"longer", keepingFor{7 * day}, Config{InboxRetention: 8 * day}, true},
		{"forced", keepingFor{7 * day}, Config{InboxRetention: day, AllowShortRetention: true}, true},
		{"relays that do not retry", keepingFor{7 * day}, Config{RelayRetry: waybill.RetryPolicy{MaxRetries: waybill.NoRetries}}, true},
		{"below zero", keepingFor{0}, Config{InboxRetention: -1, AllowShortRetention: true}, false},
	} {
		_, err := New[int](gives{tt.sub}, billing, noInbox{}, h, tt.cfg)
		var invalid *waybill.InvalidError
		if tt.ok && err != nil || !tt.ok && (!errors.As(err, &invalid) || invalid.Field != "consumer.Config.InboxRetention") {
			t.Errorf("%s: New() = %v, want success: %v", tt.name, err, tt.ok)
		}
	}
}
