package brokertest

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
)

// The tests of this file have a relay between an outbox and the connection that can fail: an adapter
// can only report that its connection ended, and the relay finds out why.

// relay publishes what is in the outbox until the test ends. pauses counts how often it had to pause.
func (f *faulty) relay(o *outbox) (pauses *atomic.Int64) {
	f.Helper()
	pauses = new(atomic.Int64)
	r, err := relay.New(o, f.broker.Publisher(), relay.Config{
		PollInterval: 50 * time.Millisecond,
		Observer:     pauseCounter{observe.LogTo(slog.New(slog.DiscardHandler)), pauses},
	})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	f.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			f.Errorf("Run() = %v", err)
		}
	})
	return pauses
}

// pauseCounter counts how often a relay pauses because its broker does not answer.
type pauseCounter struct {
	observe.Observer
	pauses *atomic.Int64
}

func (c pauseCounter) Observe(ctx context.Context, e observe.Event) {
	if e.Op == observe.OpPause {
		c.pauses.Add(1)
	}
	c.Observer.Observe(ctx, e)
}

// keyed returns n messages of several keys in rotation; their payloads are "1", "2" and so on for
// each key.
func keyed(topic string, keys, n int) []waybill.Message {
	msgs := make([]waybill.Message, n)
	for i := range msgs {
		msgs[i] = message(topic, fmt.Sprint(i/keys+1))
		msgs[i].Key = fmt.Sprint("k", i%keys)
	}
	return msgs
}

// passerBy is the payload of messages that only show that the broker works.
const passerBy = "passer-by"

// arriveInOrder takes messages until each of msgs has arrived, those of a key in order. Messages in
// flight on a connection when it ended may arrive again, and others in between.
func (f *faulty) arriveInOrder(msgs []waybill.Message) {
	f.Helper()
	missing := make(map[string][]string) // payloads by key
	for _, m := range msgs {
		missing[m.Key] = append(missing[m.Key], string(m.Payload))
	}
	seen := make(map[string]bool)
	for len(missing) > 0 {
		a := f.group.next()
		left := missing[a.message.Key]
		switch {
		case seen[a.message.ID], a.text() == passerBy:
		case len(left) == 0 || a.text() != left[0]:
			f.Fatalf("key %s: payload %q, want the first of %q", a.message.Key, a.text(), left)
		case len(left) == 1:
			delete(missing, a.message.Key)
		default:
			missing[a.message.Key] = left[1:]
		}
		seen[a.message.ID] = true
		ack(f.T, a)
	}
}

// testPoison: one of a hundred messages ends each connection that it is sent on. It is finally
// dead-lettered, and the ninety-nine others arrive, each key's in order. New ones keep coming: by
// then all of the ninety-nine except those behind it may have been published, and while nothing else
// gets through no message is suspected.
func testPoison(e *env) {
	const n, bad = 100, 37
	f := newFaulty(e)
	msgs := keyed(f.topic, 4, n)
	msgs[bad].Payload = []byte("ends the connection " + waybill.NewID())
	f.faults.CutOn(string(msgs[bad].Payload))
	o := newOutbox(msgs)
	o.more = func() waybill.Message { return message(f.topic, passerBy) }
	f.relay(o)
	f.arriveInOrder(append(msgs[:bad:bad], msgs[bad+1:]...))
	f.eventually("all to be settled", func() bool {
		others, published := o.settled()
		return len(others) == 1 && published >= n-1
	})
	others, _ := o.settled()
	if st := others[0]; st.Outcome != contract.Dead || st.Reason != waybill.ReasonPoison || st.Claim.Message.ID != msgs[bad].ID || st.Error == "" {
		e.Errorf("message %s: outcome %d, reason %q, error %q, want %s dead, %q", st.Claim.Message.ID, st.Outcome, st.Reason, st.Error,
			msgs[bad].ID, waybill.ReasonPoison)
	}
}

// testOutage: for a while each connection ends as soon as anything is published over it. No message
// is suspected for that, and all arrive afterwards, each key's in order.
func testOutage(e *env) {
	const n, pauses = 100, 6
	f := newFaulty(e)
	msgs := keyed(f.topic, 4, n)
	for i := range msgs {
		msgs[i].Subject = "outage-" + e.id
	}
	f.faults.CutOn("outage-" + e.id)
	o := newOutbox(msgs)
	seen := f.relay(o)
	f.eventually("the relay to have lost more connections than poison does", func() bool { return seen.Load() >= pauses })
	f.faults.CutOn("")
	f.arriveInOrder(msgs)
	f.eventually("all to be published", func() bool {
		others, published := o.settled()
		if len(others) > 0 {
			e.Fatalf("message %s: outcome %d, reason %q, want all published", others[0].Claim.Message.ID, others[0].Outcome, others[0].Reason)
		}
		return published == n
	})
}
