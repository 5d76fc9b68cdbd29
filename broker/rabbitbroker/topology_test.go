package rabbitbroker

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waybill-go/waybill/consumer"
)

func TestQueues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		sub  consumer.Subscription
		want []string
	}{
		{"topics", consumer.Subscription{Group: "g", Topics: []string{"a", "b"}}, []string{"g"}},
		{"destination", consumer.Subscription{Group: "g", To: "x"}, []string{"x"}},
		{"both", consumer.Subscription{Group: "g", Topics: []string{"a"}, To: "x"}, []string{"g", "x"}},
		{"both of one name", consumer.Subscription{Group: "g", Topics: []string{"a"}, To: "g"}, []string{"g"}},
		{"destination of the group's name", consumer.Subscription{Group: "g", To: "g"}, []string{"g"}},
	} {
		if got := (topology{}).queues(test.sub); !slices.Equal(got, test.want) {
			t.Errorf("%s: queues() = %v, want %v", test.name, got, test.want)
		}
	}
}

func TestStep(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, test := range []struct{ delay, ttl, left time.Duration }{
		{-time.Second, 100 * time.Millisecond, 0},
		{0, 100 * time.Millisecond, 0},
		{100 * time.Millisecond, 100 * time.Millisecond, 0},
		{100*time.Millisecond + 1, 250 * time.Millisecond, 0},
		{time.Second, time.Second, 0},
		{72 * time.Second, 2 * time.Minute, 0},
		{day, day, 0},
		{day + time.Second, day, time.Second},
		{1<<63 - 1, day, 1<<63 - 1 - day},
	} {
		if ttl, left := step(test.delay); ttl != test.ttl || left != test.left {
			t.Errorf("step(%v) = %v, %v, want %v, %v", test.delay, ttl, left, test.ttl, test.left)
		}
	}
}

// The steps of any delay add up to no less than it.
func TestStep_NeverEarly(t *testing.T) {
	t.Parallel()
	for delay := time.Millisecond; delay < 100*24*time.Hour; delay = delay*3/2 + 7 {
		waited := time.Duration(0)
		for left := delay; left > 0; {
			var ttl time.Duration
			ttl, left = step(left)
			waited += ttl
		}
		if waited < delay {
			t.Errorf("steps of %v add up to %v", delay, waited)
		}
	}
	if !slices.IsSorted(ladder[:]) {
		t.Error("the ladder is not in order")
	}
}

func TestRetryQueue(t *testing.T) {
	t.Parallel()
	if got := retryQueue("orders", time.Second); got != "orders.retry.1000" {
		t.Errorf("retryQueue() = %q, want orders.retry.1000", got)
	}
	long := strings.Repeat("ü", 124)
	seen := make(map[string]string)
	for _, queue := range []string{long, long + "x", strings.Repeat("x", 249), strings.Repeat("x", 248)} {
		for _, ttl := range ladder {
			name := retryQueue(queue, ttl)
			if len(name) > maxShortString || !utf8.ValidString(name) {
				t.Errorf("retryQueue() = %q with %d bytes", name, len(name))
			}
			if seen[name] != "" {
				t.Errorf("retryQueue() = %q for two queues", name)
			}
			seen[name] = queue
		}
	}
}
