package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/observe"
)

func historyTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"of a relay's attempts", historyRelay[Tx], nil},
		{"of what was dead at once", historyAtOnce[Tx], nil},
		{"of many attempts", historyLong[Tx], nil},
		{"kept by a requeue", historyRequeue[Tx], nil},
		{"without what counts no attempt", historyUncounted[Tx], nil},
		{"per destination", historyDestinations[Tx], nil},
		{"of a consumer's attempts", historyConsumer[Tx], nil},
		{"of a consumer's second life", historyRerun[Tx], nil},
		{"hostile texts", historyTexts[Tx], nil},
	}
}

// wantHistory checks nodes, errors and durations of a dead letter's attempts, each given as "node
// error took", and that their times do not decrease. The dead letter has the time at which it first
// failed in its latest life.
func (e *env[Tx]) wantHistory(l deadletter.Letter, want ...string) {
	e.Helper()
	var got []string
	last := l.FirstFailed.Add(-time.Second)
	if l.Requeues > 0 {
		last = time.Time{}
	}
	for _, a := range l.History {
		got = append(got, fmt.Sprintf("%s %s %v", a.Node, a.Error, a.Took))
		if a.At.Before(last) || a.At.After(l.LastFailed.Add(time.Second)) || a.At.Location() != time.UTC {
			e.Errorf("an attempt at %v after one at %v, want them between %v and %v, in UTC", a.At, last, l.FirstFailed, l.LastFailed)
		}
		last = a.At
	}
	if !slices.Equal(got, want) {
		e.Errorf("history = %q, want %q", got, want)
	}
}

// attempt is a settlement of an attempt that took a while.
func attempt(st contract.Settlement, errText string, took time.Duration) contract.Settlement {
	st.Error, st.Took = errText, took
	return st
}

func historyRelay[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(attempt(failed(n.claimOne("a"), time.Hour), "first", time.Millisecond))
	e.advance(2 * time.Hour)
	n.settle(attempt(failed(n.claimOne("a"), time.Hour), "second", time.Second))
	e.advance(2 * time.Hour)
	n.settle(attempt(dead(n.claimOne("a")), "third", 1500*time.Nanosecond))
	listed := e.letter()
	if listed.History != nil {
		e.Errorf("a list has the history %+v, want nil", listed.History)
	}
	l := e.show(listed.Number)
	e.wantHistory(l, "r1 first 1ms", "r1 second 1s", "r1 third 1.5µs")
	if between := l.History[2].At.Sub(l.History[0].At); between < 4*time.Hour || between > 4*time.Hour+time.Minute {
		e.Errorf("%v between the first and the last attempt, want about four hours", between)
	}
}

func historyAtOnce[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", ""), msg("b", ""))
	claims := n.claimOnly("a", "b")
	refused := dead(claims[1]) // it was not tried
	refused.Attempts = 0
	n.settle(attempt(dead(claims[0]), "no", time.Second), refused)
	letters := e.letters(deadletter.Filter{})
	e.wantHistory(e.show(letters[0].Number), "r1 no 1s")
	e.wantHistory(e.show(letters[1].Number))
}

func historyLong[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	want := []string{"r1 1 0s"}
	const attempts = deadletter.MaxHistory + 5
	for i := 1; i < attempts; i++ {
		n.settle(attempt(failed(n.claimOne("a"), 0), fmt.Sprint(i), 0))
	}
	n.settle(attempt(dead(n.claimOne("a")), fmt.Sprint(attempts), 0))
	for i := attempts - deadletter.MaxHistory + 2; i <= attempts; i++ {
		want = append(want, fmt.Sprintf("r1 %d 0s", i))
	}
	e.wantHistory(e.show(e.letter().Number), want...)
}

func historyRequeue[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(attempt(failed(n.claimOne("a"), 0), "first", 0))
	n.settle(attempt(dead(n.claimOne("a")), "second", 0))
	e.requeue(e.letter().Number, true)
	c := n.claimOne("a")
	if c.Attempts != 0 {
		e.Errorf("%d attempts after the requeue, want none", c.Attempts)
	}
	n.settle(attempt(failed(c, 0), "third", 0))
	n.settle(attempt(dead(n.claimOne("a")), "fourth", 0))
	l := e.show(e.letter().Number)
	e.wantHistory(l, "r1 first 0s", "r1 second 0s", "r1 third 0s", "r1 fourth 0s")
	if l.Attempts != 2 || l.Requeues != 1 {
		e.Errorf("attempts, requeues = %d, %d, want those of this life: 2, 1", l.Attempts, l.Requeues)
	}
}

// historyUncounted: waiting for an outage to end, or behind another message, is no attempt.
func historyUncounted[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"), msg("b", "k"))
	claims := n.claimOnly("a", "b")
	later := settlement(claims[0], contract.Wait)
	n.settle(attempt(later, "broker is down", time.Second), behind(claims[1]))
	again := settlement(n.claimOnly("a", "b")[0], contract.Wait)
	n.settle(attempt(again, "broker is still down", time.Second))
	n.settle(attempt(dead(find(n.claim(), "a")), "no", 0))
	e.wantHistory(e.show(e.letter().Number), "r1 no 0s")
}

func historyDestinations[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", ""))
	n.settle(fanout(n.claimOne("a"), "x", "y"))
	e.several("a")
	for _, c := range n.claim() {
		n.settle(attempt(dead(c), "no "+c.Destination, 0))
	}
	for _, l := range e.letters(deadletter.Filter{}) {
		e.wantHistory(e.show(l.Number), "r1 no "+l.Destination+" 0s")
	}
}

func historyConsumer[Tx any](e *env[Tx]) {
	l := letterOf("billing", msg("a", "k"))
	for i, text := range []string{"first", "second"} {
		a := contract.FailedAttempt{Count: i + 1, Error: text, Node: "c1", Took: time.Second}
		e.must(e.s.SaveAttempt(e.ctx, l.Record.Key, a), "SaveAttempt")
		e.must(e.s.SaveAttempt(e.ctx, l.Record.Key, a), "SaveAttempt") // repeated: it counts once
		e.advance(time.Minute)
	}
	l.Error, l.Node, l.Took = "third", "c2", time.Millisecond
	e.buryAs(l, true)
	e.wantHistory(e.show(e.letter().Number), "c1 first 1s", "c1 second 1s", "c2 third 1ms")
}

func historyRerun[Tx any](e *env[Tx]) {
	e.requeued("billing", msg("a", "k"))
	e.wantRunFails(waybill.UnavailableError(errors.New("payment service is down")))
	e.advance(time.Minute)
	e.wantRunFails(errors.New("card still expired"))
	l := e.show(e.letter().Number)
	if len(l.History) != 2 || l.History[0].Error != "card expired" || l.History[1].Error != "card still expired" || l.History[1].Node != "c1" {
		e.Errorf("history = %+v, want the first life's last attempt, and that of this one", l.History)
	}
	if want := deadletter.Fingerprint(deadletter.FromConsumer, "billing", "order.created", "card still expired"); l.Fingerprint != want {
		e.Errorf("fingerprint = %q, want that of the new error, %q", l.Fingerprint, want)
	}
}

func historyTexts[Tx any](e *env[Tx]) {
	n := e.join(`r"1\'`)
	e.enqueue(msg("a", ""))
	texts := []string{"", `{"a",\`, "'; --", "\xff", "a\x00b", "ü\n\t\u2028"}
	var want []string
	for _, text := range texts {
		stored := observe.ErrorText(textError(text))
		n.settle(attempt(failed(n.claimOne("a"), 0), stored, 0))
		want = append(want, n.name+" "+stored+" 0s")
	}
	n.settle(attempt(dead(n.claimOne("a")), "end", 0))
	e.wantHistory(e.show(e.letter().Number), append(want, n.name+" end 0s")...)
}
