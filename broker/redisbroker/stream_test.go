package redisbroker

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
)

// hashTag returns what decides the slot of a key in a Cluster.
func hashTag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}

func TestSourcesOf_Keys(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, s := range []consumer.Subscription{
		{Group: "g", Topics: []string{"t", "t}", "{t}", "}", "a:b"}, To: "t"},
		{Group: "g:waiting", Topics: []string{"t"}},
		{Group: "h}", Topics: []string{"t"}},
	} {
		list, err := sourcesOf("p:", s)
		if err != nil {
			t.Fatal(err)
		}
		for _, src := range list {
			if hashTag(src.stream) == "" || hashTag(src.stream) != hashTag(src.waitingKey()) {
				t.Errorf("%q and %q are in different slots", src.stream, src.waitingKey())
			}
			if seen[src.waitingKey()] || src.waitingKey() == src.stream {
				t.Errorf("%q is the key of two groups", src.waitingKey())
			}
			seen[src.waitingKey()] = true
		}
	}
	if _, err := sourcesOf("p:", consumer.Subscription{Topics: []string{"t"}}); !waybill.IsPermanent(err) {
		t.Errorf("sourcesOf() = %v without a group, want an InvalidError", err)
	}
}

// TestSourcesOf_IsFrozen fails if a key changes its name: messages would stay behind.
func TestSourcesOf_IsFrozen(t *testing.T) {
	t.Parallel()
	list, err := sourcesOf("waybill:", consumer.Subscription{Group: "billing", Topics: []string{"order.created"}, To: "b"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"waybill:{topic:order.created}", "waybill:{topic:order.created}:waiting:billing",
		"waybill:{to:b}", "waybill:{to:b}:waiting:waybill",
	}
	if got := append(list[0].keys(), list[1].keys()...); !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
}
