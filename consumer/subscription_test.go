package consumer

import (
	"errors"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
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
