package recording

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// Filter selects the messages that [Step.Lines] describes.
type Filter struct {
	ID    string // "" for any
	Topic string // "" for any

	seen map[place]bool // places of the selected messages so far
}

// place is what a pause concerns.
type place struct{ dest, topic string }

func (f *Filter) chooses(m *relaycore.Message) bool {
	if f.ID != "" && m.ID != f.ID || f.Topic != "" && m.Topic != f.Topic {
		return false
	}
	if f.seen == nil {
		f.seen = make(map[place]bool)
	}
	f.seen[place{m.Dest, m.Topic}] = true
	return true
}

// concerns reports whether a pause concerns a message that was selected before.
func (f *Filter) concerns(r *relaycore.Report) bool {
	for p := range f.seen {
		if p.dest == r.Dest && (r.Topic == "" || r.Topic == p.topic) {
			return true
		}
	}
	return false
}

// all reports whether every message is selected: then lines count messages instead of naming them.
func (f *Filter) all() bool { return f.ID == "" && f.Topic == "" }

// Lines describes what a step does with the messages that f selects, or, if f selects all, the step
// itself. It returns no lines if the step does not concern them. It may be called only during the visit.
func (s *Step) Lines(f *Filter) []string {
	t := &teller{step: s, filter: f}
	switch {
	case s.Restart != nil:
		t.restart()
	case f.all():
		t.event()
	default:
		t.messages()
	}
	for _, cmd := range s.Commands {
		t.command(cmd)
	}
	return t.lines
}

// teller describes a step.
type teller struct {
	step   *Step
	filter *Filter
	lines  []string
}

func (t *teller) line(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func (t *teller) lineIf(yes bool, format string, args ...any) {
	if yes {
		t.line(format, args...)
	}
}

func (t *teller) restart() {
	switch r := t.step.Restart; {
	case r.NewRun:
		t.line("the relay begins, with batches of %d, %d at a time", r.Config.BatchSize, r.Config.Parallel)
	case r.Missed:
		t.line("the recording begins, or goes on after steps that are not in it")
	}
}

// event describes the event, in a line.
func (t *teller) event() {
	switch e := t.step.Event.(type) {
	case relaycore.Leased:
		t.line("the lease is renewed: %d of %d lanes, its share is %d", len(e.Lanes), e.Total, e.Share)
	case relaycore.LeaseFailed:
		t.line("the lease is not renewed: %s", failureText(e.Err))
	case relaycore.Claimed:
		t.line("%d messages are claimed", len(e.Messages))
	case relaycore.ClaimedAhead:
		t.line("%d messages are claimed ahead%s", len(e.Messages), unlessNil(e.Err))
	case relaycore.ClaimFailed:
		t.line("a claim fails: %s", failureText(e.Err))
	case relaycore.Released:
		t.line("%d scheduled messages are released%s", e.Count, unlessNil(e.Err))
	case relaycore.Counted:
		t.line("%d messages of %d keys are parked%s", e.Messages, e.Keys, unlessNil(e.Err))
	case relaycore.Woken:
		t.line("there may be something to claim%s", unlessNil(e.Err))
	case relaycore.Answered:
		t.line("batch %d to %q is answered: %d of %d accepted", t.step.batches.numbers[e.Batch], e.Batch.Dest, accepted(e), len(e.Batch.Messages))
	case relaycore.Settled:
		t.line("%d outcomes are stored", len(t.step.Settling))
	case relaycore.SettleFailed:
		t.line("%d outcomes are not stored: %s", len(t.step.Settling), failureText(e.Err))
	case relaycore.Stop:
		t.line("the relay is stopped")
	}
}

func accepted(e relaycore.Answered) (n int) {
	for i := range e.Batch.Messages {
		if e.Results == nil || e.Results[i].Err == nil {
			n++
		}
	}
	return n
}

func failureText(err error) string { return waybill.KindOf(err).String() + " error" }

func unlessNil(err error) string {
	if err == nil {
		return ""
	}
	return ": " + failureText(err)
}

// messages describes what has happened to each selected message.
func (t *teller) messages() {
	switch e := t.step.Event.(type) {
	case relaycore.Claimed:
		t.allClaimed(e.Messages)
	case relaycore.ClaimedAhead:
		t.allClaimed(e.Messages)
	case relaycore.Answered:
		for i, m := range e.Batch.Messages {
			if t.filter.chooses(m) {
				t.line("%s is %s (batch %d)", name(m), answer(e, i), t.step.batches.numbers[e.Batch])
			}
		}
	case relaycore.Settled:
		t.settling("its outcome is stored, unless its lane belongs to another relay: lanes %v do", e.Lost)
	case relaycore.SettleFailed:
		t.settling("its outcome is not stored yet: %s", failureText(e.Err))
	}
}

func (t *teller) allClaimed(messages []relaycore.Message) {
	for i := range messages {
		if m := &messages[i]; t.filter.chooses(m) {
			t.line("%s is claimed: %s", name(m), t.claimed(m))
		}
	}
}

func (t *teller) settling(format string, args ...any) {
	if lost, ok := args[0].([]int); ok && len(lost) == 0 {
		format, args = "its outcome is stored", nil
	}
	for i := range t.step.Settling {
		if m := t.step.Settling[i].Message; t.filter.chooses(m) {
			t.line("%s: %s", name(m), fmt.Sprintf(format, args...))
		}
	}
}

func name(m *relaycore.Message) string {
	if m.Dest != "" {
		return fmt.Sprintf("%s to %q", m.ID, m.Dest)
	}
	return m.ID
}

// claimed describes what was read of a message.
func (t *teller) claimed(m *relaycore.Message) string {
	parts := []string{fmt.Sprintf("position %d", m.Position), fmt.Sprintf("lane %d", m.Lane.Number), "topic " + m.Topic}
	if m.Key != "" {
		parts = append(parts, "key "+t.token(m.Key))
	}
	if m.Tenant != "" {
		parts = append(parts, "tenant "+t.token(m.Tenant))
	}
	flag := func(set bool, text string) {
		if set {
			parts = append(parts, text)
		}
	}
	flag(m.Attempts > 0, fmt.Sprintf("%d failed attempts", m.Attempts))
	flag(m.Life > 0, fmt.Sprintf("requeued %d times", m.Life))
	flag(m.Waiting, "it has waited and is due")
	flag(m.Blocked, "an earlier message of its key waits or is parked")
	flag(m.Malformed != nil, "it cannot be decoded")
	flag(m.Expired, "it has expired")
	flag(m.DelayFor > 0, fmt.Sprintf("it is due in %v", m.DelayFor))
	flag(m.RouteErr != nil, "its destination could not be asked")
	flag(!m.Waiting && m.Malformed == nil && len(m.Routes) == 0, "no destination matches it")
	flag(len(m.Routes) > 1, "it goes to "+strings.Join(m.Routes, ", "))
	return strings.Join(parts, ", ")
}

// token returns a key or tenant, or the beginning of its hash.
func (t *teller) token(s string) string {
	if t.step.hashed {
		return "#" + hex.EncodeToString([]byte(s))[:min(8, 2*len(s))]
	}
	return s
}

// answer describes the broker's answer for the message at an index of a batch.
func answer(e relaycore.Answered, at int) string {
	if e.Results == nil || e.Results[at].Err == nil {
		return "accepted"
	}
	r := e.Results[at]
	switch {
	case r.Swallowed:
		return "taken for a copy, and is sent again under another id"
	case r.Lost:
		return "not answered, the connection was lost: it stays in its place"
	case r.Kind == waybill.Unavailable && r.After == 0:
		return "not answered: it stays in its place"
	case r.Kind == waybill.Unavailable:
		return fmt.Sprintf("to be sent again in %v", r.After)
	case r.Reason != "":
		return fmt.Sprintf("refused: %s, %s", r.Kind, r.Reason)
	}
	return "refused: " + r.Kind.String()
}

// command describes a command, as far as it concerns selected messages.
func (t *teller) command(cmd relaycore.Command) {
	switch cmd := cmd.(type) {
	case relaycore.Publish:
		t.publish(cmd.Batch)
	case relaycore.Settle:
		if t.filter.all() {
			t.line("→ store %d outcomes", len(cmd.Settlements))
			return
		}
		for i := range cmd.Settlements {
			if st := &cmd.Settlements[i]; t.filter.chooses(st.Message) {
				t.line("→ store of %s: %s", name(st.Message), outcome(st))
			}
		}
	case relaycore.Report:
		t.report(&cmd)
	case relaycore.Cut:
		if t.filter.all() {
			t.line("→ wait no longer for batch %d", t.step.batches.numbers[cmd.Batch])
		}
	case relaycore.Claim:
		if t.filter.all() {
			t.line("→ claim up to %d messages from %d lanes, %d are held", cmd.Limit, len(cmd.Lanes), len(cmd.Held))
		}
	}
}

func (t *teller) publish(b *relaycore.Batch) {
	number := t.step.batches.numbers[b]
	if t.filter.all() {
		t.line("→ send batch %d to %q: %d messages, the first at position %d", number, b.Dest, len(b.Messages), b.Messages[0].Position)
		return
	}
	for i, m := range b.Messages {
		if !t.filter.chooses(m) {
			continue
		}
		how := ""
		if m.Resent {
			how += ", again"
		}
		if b.Alone {
			how += ", alone: connections were lost with it"
		}
		t.line("→ send %s in batch %d, as %d of %d%s", name(m), number, i+1, len(b.Messages), how)
	}
}

// outcome describes the outcome of a row, and why.
func outcome(st *relaycore.Settlement) string {
	switch {
	case st.Outcome == relaycore.Published && len(st.To) > 0:
		return "published; it follows to " + strings.Join(st.To, ", ")
	case st.Outcome == relaycore.Published:
		return "published"
	case st.Outcome == relaycore.Wait && st.Behind:
		return "it waits behind an earlier message of its key"
	case st.Outcome == relaycore.Wait:
		return fmt.Sprintf("it waits for %v, after %d failed attempts%s", st.After.Round(time.Millisecond), st.Attempts, unlessNil(st.Err))
	case st.Outcome == relaycore.Schedule:
		return "it waits until it is due"
	case st.Outcome == relaycore.Fanout:
		return "a row for each of " + strings.Join(st.To, ", ")
	case st.Park:
		return fmt.Sprintf("dead-lettered, %s, after %d failed attempts; its key is parked behind it", st.Reason, st.Attempts)
	}
	return fmt.Sprintf("dead-lettered, %s, after %d failed attempts", st.Reason, st.Attempts)
}

// report describes pauses and lanes; other reports follow from events and commands.
func (t *teller) report(r *relaycore.Report) {
	all, some := t.filter.all(), t.filter.all() || len(t.filter.seen) > 0
	switch r.What {
	case relaycore.Paused:
		t.lineIf(all || t.filter.concerns(r), "→ pause %s for %v: %s", target(r), r.Delay, failureText(r.Err))
	case relaycore.Resumed:
		t.lineIf(all || t.filter.concerns(r), "→ %s answers again", target(r))
	case relaycore.LanesChanged:
		t.lineIf(some, "→ own %d lanes from now on; what was held of others is left to their owners", r.Count)
	case relaycore.LeaseLost:
		t.lineIf(some, "→ drop what is held of lanes that others own")
	case relaycore.StepsAside:
		t.lineIf(some, "→ let the lease run out")
	case relaycore.Overtaken:
		for _, m := range r.Messages {
			t.lineIf(t.filter.chooses(m), "→ %s was accepted although an earlier message of its key was refused", name(m))
		}
	case relaycore.DedupExpired:
		for _, m := range r.Messages {
			t.lineIf(t.filter.chooses(m), "→ %s was accepted, perhaps twice: the first time may be %v ago", name(m), r.Delay)
		}
	}
}

func target(r *relaycore.Report) string {
	if r.Topic != "" {
		return fmt.Sprintf("topic %s of %q", r.Topic, r.Dest)
	}
	return fmt.Sprintf("%q", r.Dest)
}
