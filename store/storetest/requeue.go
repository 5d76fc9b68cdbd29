package storetest

import (
	"errors"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
)

func requeueTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"pending again", requeueRelay[Tx], nil},
		{"twice", requeueTwice[Tx], nil},
		{"by several at once", requeueAtOnce[Tx], nil},
		{"unknown number", requeueUnknown[Tx], nil},
		{"dead again", requeueDeadAgain[Tx], nil},
		{"stored as failed", requeueFailed[Tx], nil},
		{"before others of its key that wait", requeueFirst[Tx], nil},
		{"behind others of its key that wait", requeueBehind[Tx], nil},
		{"behind one of its key that is still in the outbox", requeuePassesNone[Tx], nil},
		{"its id is pending again", requeueIDTaken[Tx], nil},
		{"its copy has its place", requeueCopied[Tx], nil},
		{"others with its id are refused", requeueRefusesDuplicates[Tx], nil},
		{"a consumer's letter", requeueConsumer[Tx], nil},
		{"a consumer's letter without a key", requeueWithoutKey[Tx], nil},
	}
}

func (e *env[Tx]) requeue(number int64, want bool) {
	e.Helper()
	done, err := e.s.RequeueDeadLetter(e.ctx, number, deadletter.Act{By: "test"})
	e.must(err, "RequeueDeadLetter")
	if done != want {
		e.Fatalf("RequeueDeadLetter(%d) = %v, want %v", number, done, want)
	}
}

func requeueRelay[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	before := n.claimOne("a")
	n.settle(failed(before, 0))
	n.settle(dead(n.claimOne("a")))
	e.requeue(e.letter().Number, true)
	e.want(inspect.Waiting, "a")
	if letters := e.letters(deadletter.Filter{}); len(letters) != 0 {
		e.Errorf("%d letters after the requeue, want none", len(letters))
	}
	c := n.claimOne("a")
	if c.Life != 1 || c.Attempts != 0 || c.Position != before.Position || c.Lane != before.Lane || c.Message.Key != "k" {
		e.Errorf("claim = %+v, want life 1, no attempts, and key, lane and position of %+v", c, before)
	}
	n.settle(published(c)...)
	e.want(inspect.Published, "a")
}

// requeueCopied reopens a dead letter whose corrected copy waits in its place: neither it nor another copy may
// take the place before the first copy is gone.
func requeueCopied[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(dead(n.claimOne("a")))
	number := e.letter().Number
	by := deadletter.Act{By: "test"}
	first, err := e.s.EditDeadLetter(e.ctx, number, deadletter.Edit{}, by)
	e.must(err, "EditDeadLetter")
	if done, err := e.s.RestoreDeadLetter(e.ctx, number, by); !done || err != nil {
		e.Fatalf("RestoreDeadLetter() = %v, %v, want true", done, err)
	}
	e.requeue(number, false)
	if id, err := e.s.EditDeadLetter(e.ctx, number, deadletter.Edit{}, by); id != "" || !errors.Is(err, deadletter.ErrRequeued) {
		e.Errorf("EditDeadLetter() = %q, %v, want ErrRequeued", id, err)
	}
	e.want(inspect.Waiting, first)
	e.want(inspect.Dead, "a")
	n.settle(published(n.claimOne(first))...)
	e.requeue(number, true)
	n.settle(published(n.claimOne("a"))...)
}

func requeueTwice[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(dead(n.claimOne("a")))
	number := e.letter().Number
	e.requeue(number, true)
	e.requeue(number, false)
	e.want(inspect.Waiting, "a")
}

func requeueAtOnce[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(dead(n.claimOne("a")))
	number := e.letter().Number
	e.wantOnce("requeue the letter", func() (bool, error) { return e.s.RequeueDeadLetter(e.ctx, number, deadletter.Act{By: "test"}) })
	n.claimOne("a")
}

// wantOnce makes several calls at once and checks that exactly one of them had the effect.
func (e *env[Tx]) wantOnce(what string, call func() (bool, error)) {
	e.Helper()
	done := make(chan bool, 8)
	e.concurrently(cap(done), func(int) error {
		return repeatConflicts(func() error {
			ok, err := call()
			if err == nil {
				done <- ok
			}
			return err
		})
	})
	count := 0
	for range cap(done) {
		if <-done {
			count++
		}
	}
	if count != 1 {
		e.Errorf("%d of %d calls at once %s, want 1", count, cap(done), what)
	}
}

func requeueUnknown[Tx any](e *env[Tx]) {
	for _, number := range []int64{-1, 0, 1, 1 << 40} {
		done, err := e.s.RequeueDeadLetter(e.ctx, number, deadletter.Act{By: "test"})
		if done || !errors.Is(err, waybill.ErrNotFound) {
			e.Errorf("RequeueDeadLetter(%d) = %v, %v, want ErrNotFound", number, done, err)
		}
	}
}

func requeueDeadAgain[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	for life := range 3 {
		c := n.claimOne("a")
		if c.Life != life {
			e.Errorf("life = %d, want %d", c.Life, life)
		}
		n.settle(dead(c))
		l := e.letter()
		if l.Requeues != life || l.Attempts != 1 {
			e.Errorf("requeues, attempts = %d, %d, want %d, 1", l.Requeues, l.Attempts, life)
		}
		e.requeue(l.Number, true)
	}
}

func requeueFailed[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	st := dead(n.claimOne("a"))
	st.Outcome = contract.Failed
	n.settle(st)
	e.requeue(e.letter().Number, true)
	n.settle(published(n.claimOne("a"))...)
	e.want(inspect.Published, "a")
}

// requeueFirst: a1 is requeued while a2 waits for its retry.
func requeueFirst[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.blocked(0)
	n.settle(dead(n.claimOne("a1")))
	claims := n.claimOnly("a2", "a3", "a4", "a5")
	n.settle(failed(claims[0], time.Hour), behind(claims[1]), behind(claims[2]), behind(claims[3]))
	e.requeue(e.letter().Number, true)
	n.settle(published(n.claimOne("a1"))...) // what is behind a2 does not overtake it
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.claimOnly("a2")
}

// requeueBehind: a1 is the first that waits when a2 is requeued, which must not overtake it.
func requeueBehind[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	claims := n.claimOnly("a1", "a2", "a3")
	n.settle(failed(claims[0], time.Hour), dead(claims[1]), behind(claims[2]))
	e.requeue(e.letter().Number, true)
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOne("a1"))...)
	n.claimOnly("a2", "a3")
}

// The answer to the first of two that were sent together may be unknown, while the second is refused.
func requeuePassesNone[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a1", "k"), msg("a2", "k"), msg("b", "other"))
	claims := n.claimOnly("a1", "a2", "b")
	n.settle(dead(find(claims, "a2")), dead(find(claims, "b")))
	number := e.letterOf("a2")
	if done, err := e.s.RequeueDeadLetter(e.ctx, number, by); done || !errors.Is(err, deadletter.ErrBehind) {
		e.Errorf("RequeueDeadLetter() = %v, %v, want ErrBehind", done, err)
	}
	if id, err := e.s.EditDeadLetter(e.ctx, number, deadletter.Edit{}, by); id != "" || !errors.Is(err, deadletter.ErrBehind) {
		e.Errorf("EditDeadLetter() = %q, %v, want ErrBehind", id, err)
	}
	e.wantReplay(e.advanceReplay(e.startReplay(deadletter.Plan{}), 10), deadletter.Done, 1, 1, 0)
	n.settle(published(find(claims, "a1"))...)
	e.requeue(number, true)
	n.claimOnly("a2", "b")
}

func requeueIDTaken[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(dead(n.claimOne("a")))
	number := e.letter().Number
	e.enqueue(msg("a", "k"))
	e.requeue(number, false) // it is in the outbox
	n.settle(failed(n.claimOne("a"), 0))
	e.requeue(number, false) // it waits
	if got := e.letter().Number; got != number {
		e.Errorf("number of the letter = %d, want still %d", got, number)
	}
	n.settle(published(n.claimOne("a"))...)
	e.requeue(number, true)
	n.claimOne("a")
}

func requeueRefusesDuplicates[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(dead(n.claimOne("a")))
	e.requeue(e.letter().Number, true)
	e.wantNew(e.transact(false, msg("a", "k"), msg("b", "k")), false, true)
	e.want(inspect.Waiting, "a")
}

func requeueConsumer[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.bury("billing", msg("a", "k"))
	number := e.letter().Number
	e.requeue(number, true)
	e.requeue(number, false)
	l := e.letter()
	if !l.Requeued || l.Requeues != 1 || l.Consumer != "billing" || l.Origin != deadletter.FromConsumer {
		e.Errorf("letter = %+v, want it marked as requeued once by its consumer", l)
	}
	n.claimOnly() // it must not go through the broker to all consumers
	e.wantNowhere("a")
}

func requeueWithoutKey[Tx any](e *env[Tx]) {
	e.buryWithoutKey("billing", waybill.Message{Topic: "orders", Type: "t"})
	done, err := e.s.RequeueDeadLetter(e.ctx, e.letter().Number, deadletter.Act{By: "test"})
	if done || !waybill.IsPermanent(err) || errors.Is(err, waybill.ErrNotFound) {
		e.Errorf("RequeueDeadLetter() = %v, %v, want a permanent error: it can't be run again safely", done, err)
	}
}
