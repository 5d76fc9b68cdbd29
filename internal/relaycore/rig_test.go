package relaycore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// sent takes the next batch, which must have the messages with these positions.
func (r *rig) sent(want ...int64) *Batch {
	r.t.Helper()
	b := take[Publish](r).Batch
	if got := positions(b.Messages); !slices.Equal(got, want) {
		r.t.Fatalf("sent %v, want %v", got, want)
	}
	return b
}

// answer says what became of a batch: nothing for all accepted, else a result for each message.
func (r *rig) answer(b *Batch, results ...Result) {
	r.t.Helper()
	if len(results) != len(b.Messages) {
		results = nil
	}
	r.step(Answered{Batch: b, Results: results, Window: time.Minute})
}

// stores answers the settlement that is wanted, which must be this one.
func (r *rig) stores(want string) {
	r.t.Helper()
	if got := say(take[Settle](r).Settlements); got != want {
		r.t.Fatalf("stored %q, want %q", got, want)
	}
	r.step(Settled{})
}

// say writes outcomes down.
func say(list []Settlement) string {
	var words []string
	for i := range list {
		st := &list[i]
		text := fmt.Sprint(st.Message.Position, " ", []string{"published", "waits", "scheduled", "fans out", "dead", "failed"}[st.Outcome])
		switch {
		case st.Outcome == Wait && st.Behind:
			text += " behind"
		case st.Outcome == Wait:
			text += fmt.Sprint(" ", st.After)
		}
		if st.Alone {
			text += " alone"
		}
		if st.Reason != "" {
			text += " " + string(st.Reason)
		}
		if st.Attempts > 0 {
			text += fmt.Sprint(" failed ", st.Attempts)
		}
		if len(st.To) > 0 {
			text += fmt.Sprint(" ", st.To)
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

// reads answers everything that reading wants, up to a claim, which it returns.
func (r *rig) reads() Claim {
	r.t.Helper()
	for range 10 {
		at := slices.IndexFunc(r.pending, func(cmd Command) bool {
			switch cmd.(type) {
			case Claim, Release, Count, Await:
				return true
			}
			return false
		})
		if at < 0 {
			r.pass(claimInterval)
			continue
		}
		cmd := r.pending[at]
		r.pending = slices.Delete(r.pending, at, at+1)
		switch cmd := cmd.(type) {
		case Claim:
			return cmd
		case Release:
			r.step(Released{})
		case Count:
			r.step(Counted{})
		case Await:
			r.step(Woken{})
		}
	}
	r.t.Fatalf("no claim among %v", r.pending)
	return Claim{}
}

// rests lets the relay wait for something new.
func (r *rig) rests() {
	r.t.Helper()
	r.pass(claimInterval)
	take[Await](r)
}

// reported returns how often something was reported, and the latest report of it.
func (r *rig) reported(what What) (n int, latest Report) {
	for _, rep := range r.reports {
		if rep.What == what {
			n, latest = n+1, rep
		}
	}
	return n, latest
}

// results that destinations give.
var (
	accepted    = Result{}
	notTaken    = Result{Err: errTest}
	unavailable = Result{Err: errTest, Kind: waybill.Unavailable}
	lost        = Result{Err: errTest, Kind: waybill.Unavailable, Lost: true, Unsure: true}
	nobody      = Result{Err: errTest, Kind: waybill.Permanent, Reason: waybill.ReasonUnroutable}
)

// to returns a message to a topic.
func to(topic string, m Message) Message {
	m.Topic = topic
	return m
}
