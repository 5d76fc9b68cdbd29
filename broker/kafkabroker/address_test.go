package kafkabroker

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
)

func TestTopicOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		prefix, topic, to string
		want              string // "" if refused
	}{
		{"", "orders", "", "orders"},
		{"shop.", "order.created-v2_X", "", "shop.order.created-v2_X"},
		{"", "", "billing", "_to.billing"},
		{"p.", "", "_to.x", "p._to._to.x"},
		{"", "_to.billing", "", ""},
		{"", "_progress.outbox", "", ""},
		{"", "", "", ""},
		{"p.", "", "", ""},
		{"", ".", "", ""},
		{"", "..", "", ""},
		{".", ".", "", ""},
		{"", "a b", "", ""},
		{"", "a/b", "", ""},
		{"", "größe", "", ""},
		{"", "a*", "", ""},
		{"", strings.Repeat("x", 249), "", strings.Repeat("x", 249)},
		{"p", strings.Repeat("x", 249), "", ""},
		{"", "", strings.Repeat("x", 246), ""},
	} {
		got, ok := topicOf(c.prefix, c.topic, c.to)
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("topicOf(%q, %q, %q) = %q, %v, want %q", c.prefix, c.topic, c.to, got, ok, c.want)
		}
		if !ok {
			continue
		}
		var m waybill.Message
		if setAddress(&m, c.prefix, &kgo.Record{Topic: got}); m.Topic != c.topic || m.To != c.to {
			t.Errorf("setAddress(%q) = topic %q, to %q, want %q, %q", got, m.Topic, m.To, c.topic, c.to)
		}
	}
}

func TestMembershipsOf(t *testing.T) {
	t.Parallel()
	a, errA := membershipsOf("p.", consumer.Subscription{Group: "a", Topics: []string{"t", "u"}, To: "x"})
	b, errB := membershipsOf("p.", consumer.Subscription{Group: "b", To: "x"})
	if errA != nil || errB != nil || len(a) != 2 || len(b) != 1 {
		t.Fatalf("memberships %v and %v, %v, %v", a, b, errA, errB)
	}
	if a[0].group != "a" || strings.Join(a[0].topics, " ") != "p.t p.u" {
		t.Errorf("own membership %v, want group a of p.t and p.u", a[0])
	}
	if a[1].group != b[0].group || a[1].group != "p._to.x" {
		t.Errorf("groups %q and %q for one destination, want p._to.x for both", a[1].group, b[0].group)
	}
	for _, s := range []consumer.Subscription{
		{Group: "g", Topics: []string{"a b"}},
		{Group: "g", Topics: []string{"_to.x"}},
		{Group: "g", To: "ä"},
		{Group: "p._to.x", Topics: []string{"t"}},
		{Topics: []string{"t"}},
	} {
		if _, err := membershipsOf("p.", s); !waybill.IsPermanent(err) {
			t.Errorf("membershipsOf(%+v) = %v, want an InvalidError", s, err)
		}
	}
}
