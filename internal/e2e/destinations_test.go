package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/relay"
)

// The troubles of one topic.
var (
	errNotRouted = waybill.PermanentError(waybill.ReasonUnroutable, errors.New("no queue is bound"))
	errQueueFull = errors.New("the queue is full")
	errNoLeader  = waybill.UnavailableError(errors.New("the topic has no leader"))
	errNoAnswer  = waybill.UnavailableError(context.DeadlineExceeded)
	slowTimeout  = 10 * unreached // how long the broker does not answer: the others are done before that
	slowLease    = relay.Config{LeaseTTL: 2 * slowTimeout, RenewInterval: 500 * time.Millisecond, PublishTimeout: slowTimeout}
)

// troubledBroker accepts every message but those of topic "troubled". Where the trouble is
// that it does not answer, wait lasts as long as it may, like that of a broker's client of
// which one message in the batch is never confirmed: the others are long with the broker.
type troubledBroker struct {
	recorder
	trouble error
	healed  atomic.Bool
	over    chan struct{} // closed when the story is over
}

func newTroubledBroker(t *testing.T, trouble error) *troubledBroker {
	b := &troubledBroker{trouble: trouble, over: make(chan struct{})}
	b.fail = func(m contract.Outgoing) error {
		if m.Topic == "troubled" && !b.healed.Load() {
			return trouble
		}
		return nil
	}
	t.Cleanup(func() { close(b.over) })
	return b
}

func (b *troubledBroker) Send(ctx context.Context, msgs []contract.Outgoing) func() []error {
	errs := b.recorder.Send(ctx, msgs)()
	return func() []error {
		if errors.Is(errors.Join(errs...), context.DeadlineExceeded) {
			select {
			case <-ctx.Done():
			case <-b.over:
			}
		}
		return errs
	}
}

// others counts the messages that are accepted and not of the topic in trouble.
func (b *troubledBroker) others() int {
	n := 0
	for _, id := range b.ids() {
		if !strings.HasPrefix(id, "troubled") {
			n++
		}
	}
	return n
}

// tenTopics returns messages of ten topics in turn, one of them "troubled". With shared keys
// every topic has messages of the same keys, which lie in the same lanes.
func tenTopics(rounds int, sharedKeys bool) []waybill.Message {
	var msgs []waybill.Message
	for i := range rounds {
		for n := range 10 {
			topic := fmt.Sprintf("fine%d", n)
			if n == 4 {
				topic = "troubled"
			}
			key := fmt.Sprintf("k%d", i%20)
			if !sharedKeys {
				key += topic
			}
			msgs = append(msgs, waybill.Message{ID: fmt.Sprintf("%s-%d", topic, i), Topic: topic, Key: key, Payload: []byte(`{}`)})
		}
	}
	return msgs
}

const (
	topicRounds = 100
	otherTopics = 9 * topicRounds
)

// TestOneTopicDoesNotHoldUpOthers has one topic of ten in trouble on the broker: those of the
// nine others are all out while it lasts, in order, and its own messages end as they should.
func TestOneTopicDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		trouble error
	}{
		{name: "slow", trouble: errNoAnswer},
		{name: "unavailable", trouble: errNoLeader},
		{name: "blocked", trouble: errQueueFull},
		{name: "unroutable", trouble: errNotRouted},
	} {
		for _, shared := range []bool{false, true} {
			name := c.name
			if shared {
				name += " with keys of others"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w, b := plainWorld(t), newTroubledBroker(t, c.trouble)
				for _, batch := range split(tenTopics(topicRounds, shared), 500) {
					w.enqueue(t, batch...)
				}
				cfg := slowLease
				cfg.Retry = waybill.RetryPolicy{MaxRetries: 1000, BaseDelay: 50 * time.Millisecond, MaxDelay: 200 * time.Millisecond}
				cfg.ShutdownGrace = time.Millisecond // what does not answer is not waited for
				w.startRelay(t, b, cfg)
				eventually(t, "the nine others are out", func() bool { return b.others() >= otherTopics })
				inOrderByID(t, &b.recorder)
				w.nothingGivenUp(t)
				w.everyIDOnce(t, 10*topicRounds)
			})
		}
	}
}

func split(msgs []waybill.Message, size int) [][]waybill.Message {
	var parts [][]waybill.Message
	for len(msgs) > size {
		parts, msgs = append(parts, msgs[:size]), msgs[size:]
	}
	return append(parts, msgs)
}

// inOrderByID fails if a message topic-N was accepted for the first time after a later one
// of its topic and key.
func inOrderByID(t *testing.T, pub *recorder) {
	t.Helper()
	pub.mu.Lock()
	defer pub.mu.Unlock()
	last, seen := map[string]int{}, map[string]bool{}
	for _, m := range pub.sent {
		if seen[m.ID] || m.ID == "held" {
			continue
		}
		seen[m.ID] = true
		_, number, _ := strings.Cut(m.ID, "-")
		var n int
		if _, err := fmt.Sscan(number, &n); err != nil {
			t.Fatalf("id %s: %v", m.ID, err)
		}
		unit := m.Topic + " " + m.Key
		if prev, ok := last[unit]; ok && n < prev {
			t.Errorf("%s was published after number %d of its key", m.ID, prev)
		}
		last[unit] = n
	}
}

// nothingGivenUp fails if there are dead letters.
func (w *world) nothingGivenUp(t *testing.T) {
	t.Helper()
	if n := w.number(t, "SELECT count(*) FROM "+w.table("dead_letters")); n != 0 {
		t.Errorf("%d dead letters, want none", n)
	}
}

// TestTroubledTopicHeals: a topic that did not answer for some time loses nothing by it, no
// attempt is counted, and its messages arrive in order.
func TestTroubledTopicHeals(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newTroubledBroker(t, errNoAnswer)
	w.enqueue(t, tenTopics(50, true)...)
	w.startRelay(t, b, relay.Config{
		LeaseTTL: 30 * time.Second, RenewInterval: 500 * time.Millisecond, PublishTimeout: 300 * time.Millisecond,
		Retry: waybill.RetryPolicy{MaxRetries: 1, BaseDelay: time.Millisecond},
	})
	eventually(t, "the nine others are out", func() bool { return b.others() >= 450 })
	if n := w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE attempts > 0 AND topic = 'troubled'"); n != 0 {
		t.Errorf("%d messages had an attempt counted while the broker did not answer, want none", n)
	}
	b.healed.Store(true)
	eventually(t, "all are published", func() bool {
		return w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE status = 'Published' AND id <> 'held'") == 500
	})
	inOrderByID(t, &b.recorder)
	w.nothingGivenUp(t)
}

// TestSlowDestination has two destinations of which one does not answer: the other gets all
// that is for it meanwhile, the messages that are for both included.
func TestSlowDestination(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	slow, fine := newTroubledBroker(t, errNoAnswer), &recorder{}
	to := func(name string) func(*waybill.Message) bool {
		return func(m *waybill.Message) bool { return m.Subject == name || m.Subject == "both" }
	}
	cfg := quick(slowLease)
	cfg.PublishTimeout = 2 * time.Second // a key waits that long if a later message of it is for both
	cfg.ShutdownGrace = time.Millisecond
	r, err := relay.NewFanout(w.store, []relay.Destination{
		{Name: "slow", Publisher: slow, Match: to("slow")},
		{Name: "fine", Publisher: fine, Match: to("fine")},
	}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var msgs []waybill.Message
	for i := range 900 {
		subject := []string{"slow", "fine", "both"}[i%3]
		msgs = append(msgs, waybill.Message{ID: fmt.Sprintf("%s-%d", subject, i), Topic: "troubled", Key: fmt.Sprintf("k%d", i%50), Subject: subject})
	}
	for _, batch := range split(msgs, 300) {
		w.enqueue(t, batch...)
	}
	run(t, t.Context(), r.Run)
	eventually(t, "the other destination has all", func() bool { return len(fine.ids()) >= 600 })
	inOrderByID(t, fine)
	w.nothingGivenUp(t)
}

// TestExpiredIsNotSent: a message whose time is over ends as a dead letter that says so,
// whether it was so at the enqueue, or while the broker was away, or behind its key.
//
//test:sessions
func TestExpiredIsNotSent(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		var away atomic.Bool
		away.Store(true)
		pub := &recorder{fail: func(m contract.Outgoing) error {
			switch {
			case m.Topic == "blocked" && away.Load():
				return errors.New("not now")
			case away.Load():
				return waybill.UnavailableError(errors.New("the broker is away"))
			}
			return nil
		}}
		soon := time.Now().Add(1500 * time.Millisecond)
		w.enqueue(t,
			waybill.Message{ID: "at once", Topic: "orders", ExpiresAt: time.Now().Add(-time.Minute)},
			waybill.Message{ID: "broker away", Topic: "orders", Key: "o", ExpiresAt: soon},
			waybill.Message{ID: "head", Topic: "blocked", Key: "k"},
			waybill.Message{ID: "behind its key", Topic: "blocked", Key: "k", ExpiresAt: soon},
			waybill.Message{ID: "in time", Topic: "orders", Key: "o", ExpiresAt: time.Now().Add(time.Hour)})
		w.startRelay(t, pub, relay.Config{Retry: waybill.RetryPolicy{MaxRetries: 1000, BaseDelay: 50 * time.Millisecond, MaxDelay: 100 * time.Millisecond}})
		w.waitStatus(t, "at once", inspect.Dead)
		eventually(t, "the time of the others is over", func() bool { return w.number(t, "SELECT count(*) WHERE clock_timestamp() > $1", soon) == 1 })
		away.Store(false)
		for _, id := range []string{"broker away", "behind its key"} {
			w.waitStatus(t, id, inspect.Dead)
		}
		w.waitStatus(t, "head", inspect.Published)
		w.waitStatus(t, "in time", inspect.Published)
		if n := w.number(t, "SELECT count(*) FROM "+w.table("dead_letters")+" WHERE reason = 'expired'"); n != 3 {
			t.Errorf("%d dead letters say that they expired, want 3", n)
		}
		for _, id := range []string{"at once", "broker away", "behind its key"} {
			if n := pub.count(id); n != 0 {
				t.Errorf("%q was sent %d times after its time, want not at all", id, n)
			}
		}
		w.everyIDOnce(t, 5)
	})
}
