package storetest

import (
	"errors"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
)

func resolveTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"kept, and listed on request", resolveKept[Tx], nil},
		{"twice", resolveTwice[Tx], nil},
		{"by several at once", resolveAtOnce[Tx], nil},
		{"unknown number", resolveUnknown[Tx], nil},
		{"requeued before", resolveRequeued[Tx], nil},
		{"requeued afterwards", resolveThenRequeue[Tx], nil},
		{"a consumer's letter", resolveConsumer[Tx], nil},
		{"words that can't be stored", resolveWords[Tx], nil},
		{"relays of the process are woken", resolveWakes[Tx], nil},
	}
}

func (e *env[Tx]) resolve(number int64, want bool) {
	e.Helper()
	done, err := e.s.ResolveDeadLetter(e.ctx, number, deadletter.Act{By: "test", Why: "refunded by hand"})
	e.must(err, "ResolveDeadLetter")
	if done != want {
		e.Fatalf("ResolveDeadLetter(%d) = %v, want %v", number, done, want)
	}
}

func resolveKept[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 2)...)
	claims := n.claimOnly("a1", "a2")
	n.settle(dead(claims[0]))
	n.settle(dead(claims[1]))
	before := e.letters(deadletter.Filter{})[0]
	e.resolve(before.Number, true)
	if l := e.letter(); l.Message.ID != "a2" || l.ResolvedAt != nil || l.Resolution != "" {
		e.Errorf("letter = %+v, want that of a2 only", l)
	}
	resolved := e.letters(deadletter.Filter{State: deadletter.Resolved})
	if len(resolved) != 1 || resolved[0].ResolvedAt == nil {
		e.Fatalf("resolved letters = %+v, want that of a1 with a time", resolved)
	}
	e.wantRecent("ResolvedAt", *resolved[0].ResolvedAt, 0)
	l := resolved[0]
	if l.Number != before.Number || l.Message.ID != "a1" || l.Error != before.Error || l.Attempts != before.Attempts || l.Resolution != "refunded by hand" {
		e.Errorf("letter = %+v, want %+v with the resolution", l, before)
	}
	n.claimOnly()
	e.want(inspect.Dead, "a1", "a2")
}

func resolveTwice[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(dead(n.claimOne("a")))
	number := e.letter().Number
	e.resolve(number, true)
	done, err := e.s.ResolveDeadLetter(e.ctx, number, deadletter.Act{By: "test", Why: "other words"})
	if done || err != nil {
		e.Errorf("ResolveDeadLetter() = %v, %v, want false and no error", done, err)
	}
	if l := e.letters(deadletter.Filter{State: deadletter.Resolved})[0]; l.Resolution != "refunded by hand" {
		e.Errorf("resolution = %q, want the first one", l.Resolution)
	}
}

func resolveAtOnce[Tx any](e *env[Tx]) {
	n := e.join("r1")
	number := n.parked().Number
	e.wantOnce("resolve the letter", func() (bool, error) { return e.s.ResolveDeadLetter(e.ctx, number, deadletter.Act{By: "test"}) })
	n.claimOnly("a2", "a3", "a4")
}

func resolveUnknown[Tx any](e *env[Tx]) {
	for _, number := range []int64{-1, 0, 1, 1 << 40} {
		done, err := e.s.ResolveDeadLetter(e.ctx, number, deadletter.Act{By: "test"})
		if done || !errors.Is(err, waybill.ErrNotFound) {
			e.Errorf("ResolveDeadLetter(%d) = %v, %v, want ErrNotFound", number, done, err)
		}
	}
}

func resolveRequeued[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(dead(n.claimOne("a")))
	number := e.letter().Number
	e.requeue(number, true)
	if done, err := e.s.ResolveDeadLetter(e.ctx, number, deadletter.Act{By: "test"}); done || !errors.Is(err, deadletter.ErrRequeued) {
		e.Errorf("ResolveDeadLetter() = %v, %v, want ErrRequeued", done, err)
	}
	n.settle(published(n.claimOne("a"))...)
	if done, err := e.s.ResolveDeadLetter(e.ctx, number, deadletter.Act{By: "test"}); done || !errors.Is(err, waybill.ErrNotFound) {
		e.Errorf("ResolveDeadLetter() after it was published = %v, %v, want ErrNotFound", done, err)
	}
}

func resolveThenRequeue[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(dead(n.claimOne("a")))
	e.bury("billing", msg("b", "k"))
	for _, l := range e.letters(deadletter.Filter{}) {
		e.resolve(l.Number, true)
		if done, err := e.s.RequeueDeadLetter(e.ctx, l.Number, deadletter.Act{By: "test"}); done || !errors.Is(err, deadletter.ErrResolved) {
			e.Errorf("RequeueDeadLetter() of a letter from %s = %v, %v, want ErrResolved", l.Origin, done, err)
		}
	}
	n.claimOnly()
}

func resolveConsumer[Tx any](e *env[Tx]) {
	e.bury("billing", msg("a", "k"))
	e.bury("shipping", msg("a", "k"))
	letters := e.letters(deadletter.Filter{})
	e.resolve(letters[0].Number, true)
	e.requeue(letters[1].Number, true)
	if done, err := e.s.ResolveDeadLetter(e.ctx, letters[1].Number, deadletter.Act{By: "test"}); done || !errors.Is(err, deadletter.ErrRequeued) {
		e.Errorf("ResolveDeadLetter() of one about to be run = %v, %v, want ErrRequeued", done, err)
	}
}

func resolveWords[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(dead(n.claimOne("a")))
	number := e.letter().Number
	for _, words := range []string{strings.Repeat("x", observe.MaxErrorLen+1), "a\x00b", "\xff"} {
		var invalid *waybill.InvalidError
		if done, err := e.s.ResolveDeadLetter(e.ctx, number, deadletter.Act{By: "test", Why: words}); done || !errors.As(err, &invalid) || invalid.Field != "why" {
			e.Errorf("ResolveDeadLetter(%.5q…) = %v, %v, want an InvalidError that names it", words, done, err)
		}
	}
	words := strings.Repeat("ü", observe.MaxErrorLen/2-10) + "'; -- {} \\ \" $1\n"
	done, err := e.s.ResolveDeadLetter(e.ctx, number, deadletter.Act{By: "test", Why: words})
	if !done || err != nil {
		e.Fatalf("ResolveDeadLetter() = %v, %v, want true", done, err)
	}
	if l := e.letters(deadletter.Filter{State: deadletter.Resolved})[0]; l.Resolution != words {
		e.Errorf("resolution = %q, want %q", l.Resolution, words)
	}
}

func resolveWakes[Tx any](e *env[Tx]) {
	n := e.join("r1")
	number := n.parked().Number
	e.leave("r1")
	r := e.sleeps("r2")
	e.resolve(number, true)
	r.wantFound("a2", "a3", "a4")
}
