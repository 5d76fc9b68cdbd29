package consumer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

func TestSubscription_Validate(t *testing.T) {
	t.Parallel()
	group200, topic249 := strings.Repeat("g", waybill.MaxConsumerLen), strings.Repeat("t", waybill.MaxTopicLen)
	for _, c := range []struct {
		name  string
		sub   Subscription
		field string // "" if valid
	}{
		{"one topic", Subscription{Group: "g", Topics: []string{"t"}}, ""},
		{"only a destination", Subscription{Group: "g", To: "q"}, ""},
		{"at the limits", Subscription{Group: group200, Topics: []string{topic249}, To: topic249}, ""},
		{"no group", Subscription{Topics: []string{"t"}}, "Subscription.Group"},
		{"group too long", Subscription{Group: group200 + "g", To: "q"}, "Subscription.Group"},
		{"group not UTF-8", Subscription{Group: "\xff", To: "q"}, "Subscription.Group"},
		{"nothing to receive", Subscription{Group: "g"}, "Subscription.Topics"},
		{"empty topic", Subscription{Group: "g", Topics: []string{"t", ""}}, "Subscription.Topics[1]"},
		{"topic too long", Subscription{Group: "g", Topics: []string{topic249 + "t"}}, "Subscription.Topics[0]"},
		{"topic with control character", Subscription{Group: "g", Topics: []string{"a\nb"}}, "Subscription.Topics[0]"},
		{"topic twice", Subscription{Group: "g", Topics: []string{"t", "u", "t"}}, "Subscription.Topics[2]"},
		{"destination too long", Subscription{Group: "g", To: topic249 + "t"}, "Subscription.To"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := c.sub.Validate()
			var invalid *waybill.InvalidError
			switch {
			case c.field == "" && err != nil:
				t.Errorf("Validate() = %v, want nil", err)
			case c.field != "" && !errors.As(err, &invalid):
				t.Errorf("Validate() = %v, want an InvalidError of %s", err, c.field)
			case c.field != "" && invalid.Field != c.field:
				t.Errorf("Validate() names %s, want %s", invalid.Field, c.field)
			}
		})
	}
}

// TestNew_Refuses: whatever kind of consumer it is, what it receives is looked at first.
func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	ok := gives{silentSubscriber{}}
	for name, tc := range map[string]struct {
		broker Broker
		sub    Subscription
		field  string
	}{
		"no group":      {ok, Subscription{To: "q"}, "Subscription.Group"},
		"group first":   {nil, Subscription{To: "q"}, "Subscription.Group"},
		"no broker":     {nil, billing, "b"},
		"no subscriber": {gives{}, billing, "b"},
		"no handler":    {ok, billing, "h"},
	} {
		var one Handler[int]
		var many BatchHandler[int]
		var leased LeasedHandler
		if tc.field == "b" {
			one, leased = ignore, func(context.Context, *waybill.Message) error { return nil }
			many = func(context.Context, int, []*waybill.Message) error { return nil }
		}
		var box contract.Inbox[int] = batchBox{newBox()}
		letters := LettersTo(func(context.Context, inbox.Letter) error { return nil })
		_, errOne := New(tc.broker, tc.sub, box, one, Config{})
		_, errMany := NewBatch(tc.broker, tc.sub, box, many, Config{})
		_, errLeased := NewLeased(tc.broker, tc.sub, &leaseStub{}, leased, Leases{Bus: "b", Letters: letters}, Config{})
		for kind, err := range map[string]error{"New": errOne, "NewBatch": errMany, "NewLeased": errLeased} {
			var invalid *waybill.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != tc.field {
				t.Errorf("%s: %s() = %v, want an InvalidError of %s", name, kind, err, tc.field)
			}
		}
	}
}
