package natsbroker

import (
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
)

func TestSubjectOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		topic, to string
		want      string // "" if refused
	}{
		{"orders", "", "p.orders"},
		{"orders.created.v2", "", "p.orders.created.v2"},
		{"größe", "", "p.größe"},
		{"", "billing", "p._to.billing"},
		{"", "a.b", "p._to.a.b"},
		{"_to", "", "p._to"},
		{"", "_to.x", "p._to._to.x"},
		{"_to.billing", "", ""},
		{"", "", ""},
		{"a b", "", ""},
		{"a\tb", "", ""},
		{"a..b", "", ""},
		{".a", "", ""},
		{"a.", "", ""},
		{"a.*", "", ""},
		{"a*", "", ""},
		{">", "", ""},
		{"", "a b", ""},
		{"", "x.", ""},
	} {
		got, ok := subjectOf("p.", c.topic, c.to)
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("subjectOf(%q, %q) = %q, %v, want %q", c.topic, c.to, got, ok, c.want)
		}
		if !ok {
			continue
		}
		var m waybill.Message
		if setAddress(&m, "p.", got); m.Topic != c.topic || m.To != c.to {
			t.Errorf("setAddress(%q) = topic %q, to %q, want %q, %q", got, m.Topic, m.To, c.topic, c.to)
		}
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outer, inner string
		want         bool
	}{
		{"a.>", "a.>", true},
		{">", "a.>", true},
		{"a.>", "a.b", true},
		{"a.>", "a.b.c", true},
		{"a.*", "a.b", true},
		{"*.b", "a.b", true},
		{"a.b", "a.b", true},
		{"*.>", "a.>", true},
		{"a.>", "a", false},
		{"a.*", "a.>", false},
		{"a.*", "a.b.c", false},
		{"a.b.>", "a.>", false},
		{"b.>", "a.>", false},
		{"a", "a.b", false},
	} {
		if got := covers(c.outer, c.inner); got != c.want {
			t.Errorf("covers(%q, %q) = %v, want %v", c.outer, c.inner, got, c.want)
		}
	}
}

func TestDurablesOf_NamesAreDistinct(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("g", waybill.MaxConsumerLen)
	seen := make(map[string]string)
	for _, s := range []consumer.Subscription{
		{Group: "g", Topics: []string{"t", "u", "t.u", "t_u", "T"}},
		{Group: "g.", Topics: []string{"t"}},
		{Group: "g_", Topics: []string{"t"}},
		{Group: "g/ü *>", Topics: []string{"t"}},
		{Group: "to", Topics: []string{"t"}},
		{Group: "g-t", Topics: []string{"u"}},
		{Group: "g", Topics: []string{"t-u"}},
		{Group: long, Topics: []string{strings.Repeat("t", waybill.MaxTopicLen)}},
		{Group: long[1:] + "h", Topics: []string{strings.Repeat("t", waybill.MaxTopicLen)}},
		{Group: "g", To: "t"},
	} {
		list, err := durablesOf("p.", s)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			if other, ok := seen[d.name]; ok {
				t.Errorf("%s and %s have the name %q", other, d.about, d.name)
			}
			seen[d.name] = d.about
			if len(d.name) > maxNameLen || strings.ContainsAny(d.name, ". *>/\\") {
				t.Errorf("name %q is no name for a consumer", d.name)
			}
		}
	}
}

func TestDurablesOf_Addresses(t *testing.T) {
	t.Parallel()
	a, _ := durablesOf("p.", consumer.Subscription{Group: "a", To: "x"})
	b, _ := durablesOf("p.", consumer.Subscription{Group: "b", To: "x"})
	if a[0].name != b[0].name {
		t.Errorf("two groups have %q and %q for one destination, want the same", a[0].name, b[0].name)
	}
	for _, s := range []consumer.Subscription{
		{Group: "g", Topics: []string{"a.*"}},
		{Group: "g", Topics: []string{"_to.x"}},
		{Group: "g", To: "a b"},
		{Group: ""},
	} {
		if _, err := durablesOf("p.", s); !waybill.IsPermanent(err) {
			t.Errorf("durablesOf(%+v) = %v, want an InvalidError", s, err)
		}
	}
}

// TestDurableName_IsFrozen fails if the name of a consumer changes: groups would start from the beginning.
func TestDurableName_IsFrozen(t *testing.T) {
	t.Parallel()
	list, err := durablesOf("waybill.", consumer.Subscription{Group: "billing v2", Topics: []string{"order.created"}, To: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"billing_v2-order_created-1b04c757807191a39b4219dc",
		"to-billing-01a6b79958ff49c09c281ebf",
	} {
		if list[i].name != want {
			t.Errorf("name %q, want %q", list[i].name, want)
		}
	}
}
