package storetest

import (
	"errors"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
)

// dieAgain: a requeued message that is dead-lettered again is the same dead letter as before, next
// to others that are dead-lettered with it for the first time.
func dieAgain[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.die(n, msg("a", "k"), "no route")
	e.die(n, msg("b", "k"), "no route")
	a, b := e.numberOf("a"), e.numberOf("b")
	for life := 1; life <= 2; life++ {
		e.requeue(a, true)
		fresh := msg("fresh", "")
		fresh.ID += string(rune('0' + life))
		e.enqueue(fresh)
		claims := n.claimOnly("a", fresh.ID)
		n.settle(dead(find(claims, "a")), dead(find(claims, fresh.ID)))
		if got := e.numberOf("a"); got != a {
			e.Errorf("after death %d the letter has the number %d, want %d as before", life+1, got, a)
		}
		if got := e.numberOf(fresh.ID); got <= b {
			e.Errorf("the new letter has the number %d, want one above %d", got, b)
		}
		if l := e.show(a); l.Requeues != life || l.State != deadletter.Open || l.Message.ID != "a" {
			e.Errorf("letter = %+v, want it open, and requeued %d times", l, life)
		}
	}
	log, err := e.s.AuditLog(e.ctx, deadletter.AuditFilter{Letter: a})
	e.must(err, "AuditLog")
	if len(log) != 2 {
		e.Errorf("%d entries about the letter, want its two requeues", len(log))
	}
	e.change(e.s.DeleteDeadLetter, a, true)
	e.gone("a")
}

// dieAgainApart: the dead letters of one message with several destinations keep their numbers.
func dieAgainApart[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(fanout(n.claimOne("a"), "x", "y"))
	e.several("a")
	settleAll := func() {
		var list []contract.Settlement
		for _, c := range n.claim() {
			list = append(list, dead(c))
		}
		n.settle(list...)
	}
	settleAll()
	before := e.numbers()
	for _, number := range before {
		e.requeue(number, true)
	}
	settleAll()
	after := e.numbers()
	if len(before) != 2 || len(after) != 2 || before["x"] != after["x"] || before["y"] != after["y"] {
		e.Errorf("numbers by destination %v, want %v as before", after, before)
	}
}

// numbers returns the numbers of the open dead letters by destination.
func (e *env[Tx]) numbers() map[string]int64 {
	e.Helper()
	numbers := make(map[string]int64)
	for _, l := range e.letters(deadletter.Filter{}) {
		numbers[l.Destination] = l.Number
	}
	return numbers
}

// dieAgainAtConsumer: a dead letter keeps its number when its consumer runs it again and fails.
func dieAgainAtConsumer[Tx any](e *env[Tx]) {
	e.requeued("billing", msg("a", "k"))
	number := e.numberOf("a")
	e.wantRunFails(errors.New("card still expired"))
	if l := e.letter(); l.Number != number || l.Requeues != 1 {
		e.Errorf("the letter has the number %d, and was requeued %d times; want %d, once", l.Number, l.Requeues, number)
	}
}
