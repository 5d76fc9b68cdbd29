package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
)

func deadLetterTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"none", noLetters[Tx], nil},
		{"at the first attempt", deadAtOnce[Tx], nil},
		{"after retries", deadAfterRetries[Tx], nil},
		{"dead letters disabled", deadFailed[Tx], nil},
		{"hostile error texts", deadErrorText[Tx], nil},
		{"filters", letterFilters[Tx], nil},
		{"page by page", letterPages[Tx], nil},
	}
}

func (e *env[Tx]) letters(f deadletter.Filter) []deadletter.Letter {
	e.Helper()
	letters, err := e.s.DeadLetters(e.ctx, f)
	e.must(err, "DeadLetters")
	return letters
}

// letter returns the only dead letter, as a list has it but with its payload.
func (e *env[Tx]) letter() deadletter.Letter {
	e.Helper()
	letters := e.letters(deadletter.Filter{})
	if len(letters) != 1 {
		e.Fatalf("%d dead letters, want 1", len(letters))
	}
	l := letters[0]
	l.Message.Payload = e.show(l.Number).Message.Payload
	return l
}

func noLetters[Tx any](e *env[Tx]) {
	if letters := e.letters(deadletter.Filter{}); letters == nil || len(letters) > 0 {
		e.Errorf("DeadLetters() = %#v, want an empty slice", letters)
	}
}

// wantRecent checks that a time is about now, as moved by Advance.
func (e *env[Tx]) wantRecent(name string, got time.Time, advanced time.Duration) {
	e.Helper()
	if diff := time.Until(got) - advanced; diff.Abs() > time.Minute {
		e.Errorf("%s = %v, want about now and %v", name, got, advanced)
	}
}

func deadAtOnce[Tx any](e *env[Tx]) {
	n := e.join("r1")
	want := full("a")
	e.enqueue(want)
	st := dead(n.claimOne("a"))
	st.Reason = waybill.ReasonUnroutable
	n.settle(st)
	n.claimOnly()

	l := e.letter()
	e.wantMessage(l.Message, want)
	if l.Number <= 0 || l.Origin != deadletter.FromRelay || l.Consumer != "" || l.Destination != "" || l.Reason != st.Reason ||
		l.Error != st.Error || l.Attempts != 1 || l.Requeues != 0 || l.Failed || l.Requeued {
		e.Errorf("letter = %+v, want what the settlement %+v says", l, st)
	}
	e.wantRecent("FirstFailed", l.FirstFailed, 0)
	e.wantRecent("LastFailed", l.LastFailed, 0)
	if state := e.want(inspect.Dead, "a"); state.Attempts != 1 || state.Error != st.Error {
		e.Errorf("state = %+v, want 1 attempt and the error", state)
	}
}

func deadAfterRetries[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(failed(n.claimOne("a"), time.Hour))
	e.advance(2 * time.Hour)
	n.settle(failed(n.claimOne("a"), time.Hour))
	e.advance(2 * time.Hour)
	st := dead(n.claimOne("a"))
	st.Reason = waybill.ReasonExhausted
	n.settle(st)
	l := e.letter()
	if l.Attempts != 3 || l.Reason != waybill.ReasonExhausted {
		e.Errorf("attempts, reason = %d, %s, want 3, exhausted", l.Attempts, l.Reason)
	}
	e.wantRecent("FirstFailed", l.FirstFailed, 0)
	e.wantRecent("LastFailed", l.LastFailed, 4*time.Hour)
}

func deadFailed[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 2)...)
	claims := n.claimOnly("a1", "a2")
	st := dead(claims[0])
	st.Outcome = contract.Failed
	n.settle(st, behind(claims[1]))
	if l := e.letter(); !l.Failed || l.Message.ID != "a1" {
		e.Errorf("letter = %+v, want a1 marked as failed", l)
	}
	e.want(inspect.Failed, "a1")
	n.claimOnly("a2")
}

func deadErrorText[Tx any](e *env[Tx]) {
	n := e.join("r1")
	for _, text := range []string{
		"", "a\x00b", "\xff\xfe", "NULL", `{"a",\`, "'; --", "line\r\n\ttab\x1b[31m", strings.Repeat("ü", observe.MaxErrorLen),
	} {
		text = observe.ErrorText(textError(text))
		e.enqueue(msg("a", "k"))
		st := failed(n.claimOne("a"), 0)
		st.Error = text
		n.settle(st)
		if got := e.want(inspect.Waiting, "a").Error; got != text {
			e.Errorf("waiting with the error %q, want %q", got, text)
		}
		st = dead(n.claimOne("a"))
		st.Error = text
		n.settle(st)
		l := e.letter()
		if l.Error != text {
			e.Errorf("dead with the error %q, want %q", l.Error, text)
		}
		e.requeue(l.Number, true)
		n.settleWith(false, published(n.claimOne("a"))...)
		e.gone("a")
	}
}

// textError is an error with any text.
type textError string

func (t textError) Error() string { return string(t) }

func letterFilters[Tx any](e *env[Tx]) {
	n := e.join("r1")
	m := msg("relayed", "k")
	m.Type, m.Tenant, m.Topic = "t1", "tenant1", "topic1"
	e.enqueue(m)
	n.settle(dead(n.claimOne("relayed")))
	for _, id := range []string{"one", "two"} {
		m := msg(id, "k")
		m.Type, m.Tenant = "t2", "tenant "+id
		e.bury("consumer "+id, m)
	}
	for name, tc := range map[string]struct {
		filter deadletter.Filter
		want   []string
	}{
		"all":      {deadletter.Filter{}, []string{"relayed", "one", "two"}},
		"relay":    {deadletter.Filter{Origin: deadletter.FromRelay}, []string{"relayed"}},
		"consumer": {deadletter.Filter{Origin: deadletter.FromConsumer}, []string{"one", "two"}},
		"by name":  {deadletter.Filter{Consumer: "consumer two"}, []string{"two"}},
		"topic":    {deadletter.Filter{Topic: "topic1"}, []string{"relayed"}},
		"type":     {deadletter.Filter{Type: "t2"}, []string{"one", "two"}},
		"tenant":   {deadletter.Filter{Tenant: "tenant one"}, []string{"one"}},
		"both":     {deadletter.Filter{Type: "t2", Tenant: "tenant1"}, []string{}},
		"limit":    {deadletter.Filter{Limit: 2}, []string{"relayed", "one"}},
	} {
		got := []string{}
		for _, l := range e.letters(tc.filter) {
			got = append(got, l.Message.ID)
		}
		if !slices.Equal(got, tc.want) {
			e.Errorf("filter %s: letters %v, want %v", name, got, tc.want)
		}
	}
}

func letterPages[Tx any](e *env[Tx]) {
	const count = deadletter.DefaultLimit + 20
	n := e.join("r1")
	e.enqueue(msgs("a", "", count)...)
	var outcomes []contract.Settlement
	for _, c := range n.claim() {
		outcomes = append(outcomes, dead(c))
	}
	n.settle(outcomes...)
	if got := len(e.letters(deadletter.Filter{})); got != deadletter.DefaultLimit {
		e.Errorf("%d letters without a limit, want %d", got, deadletter.DefaultLimit)
	}
	seen := make(map[string]bool)
	for last := int64(0); ; {
		page := e.letters(deadletter.Filter{After: last, Limit: 33})
		for _, l := range page {
			if l.Number <= last {
				e.Fatalf("letter %d after %d", l.Number, last)
			}
			last = l.Number
			seen[l.Message.ID] = true
		}
		if len(page) < 33 {
			break
		}
	}
	if len(seen) != count {
		e.Errorf("%d letters on all pages, want %d", len(seen), count)
	}
}
