package storetest

import (
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
)

func parkTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"a letter holds its key", parkHolds[Tx], nil},
		{"the first to follow finds its key blocked", parkFirstFollower[Tx], nil},
		{"released by a requeue", parkRequeue[Tx], nil},
		{"released by resolving", parkResolve[Tx], nil},
		{"dead again", parkDeadAgain[Tx], nil},
		{"two letters of a key", parkTwoLetters[Tx], nil},
		{"the second of two letters comes back first", parkSecondLetterFirst[Tx], nil},
		{"the letter goes while a follower is in flight", parkLetterGoes[Tx], nil},
		{"one fails behind one that parks", parkFailBehind[Tx], nil},
		{"one that waits fails behind one that parks", parkFailBehindWaiting[Tx], nil},
		{"one fails before one that parks", parkFailBefore[Tx], nil},
		{"committed late before the letter", parkLateBefore[Tx], []need{concurrentWriters}},
		{"committed late before one that waits", parkLateBeforeWaiting[Tx], []need{concurrentWriters}},
		{"stored as failed", parkFailed[Tx], nil},
		{"a message without a key parks nothing", parkWithoutKey[Tx], nil},
		{"other destinations of the key go on", parkDestination[Tx], nil},
		{"counted", parkCount[Tx], nil},
		{"counted by lane", parkCountLanes[Tx], []need{severalLanes}},
		{"due messages only", claimDueOnly[Tx], nil},
	}
}

// parking dead-letters a claim and parks its key.
func parking(c contract.Claim) contract.Settlement {
	st := dead(c)
	st.Park = true
	return st
}

// parked enqueues a1 to a4 of one key, and lets a1 park it with the rest behind.
func (n *node[Tx]) parked() (letter deadletter.Letter) {
	n.Helper()
	n.enqueue(msgs("a", "k", 4)...)
	claims := n.claimOnly("a1", "a2", "a3", "a4")
	n.settle(parking(claims[0]), behind(claims[1]), behind(claims[2]), behind(claims[3]))
	return n.letter()
}

// letterOf returns the number of the dead letter of a message.
func (e *env[Tx]) letterOf(id string) int64 {
	e.Helper()
	for _, l := range e.letters(deadletter.Filter{}) {
		if l.Message.ID == id {
			return l.Number
		}
	}
	e.Fatalf("message %s has no dead letter", id)
	return 0
}

func parkHolds[Tx any](e *env[Tx]) {
	n := e.join("r1")
	if l := n.parked(); !l.Parks || l.Behind != 3 {
		e.Errorf("letter = %+v, want that it parks its key with 3 messages behind", l)
	}
	n.claimOnly()
	e.advance(longTTL / 2)
	n.claimOnly()
	e.want(inspect.Dead, "a1")
	if state := e.want(inspect.Waiting, "a2", "a3", "a4"); state.DueAt != nil {
		e.Errorf("a4 is due at %v, want no due time", state.DueAt)
	}
	elsewhere := msg("elsewhere", "k")
	elsewhere.Topic = "invoices"
	e.enqueue(msg("other", "k2"), msg("no key", ""), elsewhere)
	for _, c := range n.claimOnly("other", "no key", "elsewhere") {
		if c.Blocked {
			e.Errorf("%s is blocked by the letter of another unit", c.Message.ID)
		}
	}
}

func parkFirstFollower[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a1", "k"))
	n.settle(parking(n.claimOne("a1")))
	e.enqueue(msgs("b", "k", 2)...)
	claims := n.claimOnly("b1", "b2")
	if !claims[0].Blocked || !claims[1].Blocked {
		e.Fatalf("claims = %+v, want both blocked although nothing waits yet", claims)
	}
	n.settle(behind(claims[0]), behind(claims[1]))
	n.claimOnly()
	e.want(inspect.Waiting, "b1", "b2")
}

func parkRequeue[Tx any](e *env[Tx]) {
	n := e.join("r1")
	l := n.parked()
	e.enqueue(msg("a5", "k"))
	n.settle(behind(n.claimOne("a5")))
	e.requeue(l.Number, true)
	claims := n.claimOnly("a1", "a2", "a3", "a4", "a5")
	if first := claims[0]; first.Message.ID != "a1" || first.Life != 1 || first.Attempts != 0 {
		e.Errorf("first claim = %+v, want a1 in its second life", first)
	}
	n.settle(failed(claims[0], time.Hour), behind(claims[1]), behind(claims[2]), behind(claims[3]), behind(claims[4]))
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOne("a1"))...)
	n.settle(published(n.claimOnly("a2", "a3", "a4", "a5")...)...)
	e.enqueue(msg("a6", "k"))
	if c := n.claimOne("a6"); c.Blocked {
		e.Error("a6 is blocked after everything before it was published")
	}
}

func parkResolve[Tx any](e *env[Tx]) {
	n := e.join("r1")
	l := n.parked()
	e.resolve(l.Number, true)
	claims := n.claimOnly("a2", "a3", "a4")
	n.settle(published(claims...)...)
	e.want(inspect.Dead, "a1")
	e.enqueue(msg("a5", "k"))
	if c := n.claimOne("a5"); c.Blocked {
		e.Error("a5 is blocked after the letter was resolved")
	}
}

func parkDeadAgain[Tx any](e *env[Tx]) {
	n := e.join("r1")
	l := n.parked()
	e.requeue(l.Number, true)
	claims := n.claimOnly("a1", "a2", "a3", "a4")
	n.settle(parking(claims[0]), behind(claims[1]), behind(claims[2]), behind(claims[3]))
	n.claimOnly()
	e.resolve(e.letter().Number, true)
	n.claimOnly("a2", "a3", "a4")
}

func parkTwoLetters[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	claims := n.claimOnly("a1", "a2", "a3")
	n.settle(parking(claims[0]), parking(claims[1]), behind(claims[2]))
	e.requeue(e.letterOf("a1"), true)
	n.settle(published(n.claimOne("a1"))...) // a3 stays behind the other dead letter
	n.claimOnly()
	e.requeue(e.letterOf("a2"), true)
	n.claimOnly("a2", "a3")
}

func parkSecondLetterFirst[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	claims := n.claimOnly("a1", "a2", "a3")
	n.settle(parking(claims[0]), parking(claims[1]), behind(claims[2]))
	e.requeue(e.letterOf("a2"), true)
	n.claimOnly() // it waits behind the dead letter of a1
	e.resolve(e.letterOf("a1"), true)
	n.claimOnly("a2", "a3")
}

// parkLetterGoes: what was claimed as blocked is settled when the dead letter is gone already.
func parkLetterGoes[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a1", "k"))
	n.settle(parking(n.claimOne("a1")))
	e.enqueue(msg("a2", "k"))
	claim := n.claimOne("a2")
	e.resolve(e.letter().Number, true)
	n.settle(behind(claim))
	n.settle(parking(n.claimOne("a2")))
	e.enqueue(msg("a3", "k"))
	claim = n.claimOne("a3")
	e.requeue(e.letter().Number, true)
	n.settle(behind(claim))
	n.claimOnly("a2", "a3")
}

func parkFailBehind[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	claims := n.claimOnly("a1", "a2", "a3")
	n.settle(failed(claims[1], 0), behind(claims[2]), parking(claims[0])) // of one wave
	n.claimOnly()
	e.resolve(e.letter().Number, true)
	if c := n.claimOne("a2"); c.Attempts != 1 {
		e.Errorf("attempts = %d, want 1", c.Attempts)
	}
}

func parkFailBehindWaiting[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.blocked(0)
	n.settle(published(n.claimOne("a1"))...)
	claims := n.claimOnly("a2", "a3", "a4", "a5")
	n.settle(parking(claims[0]), failed(claims[1], 0), behind(claims[2]), published(claims[3])[0])
	n.claimOnly()
	e.resolve(e.letter().Number, true)
	n.settle(published(n.claimOne("a3"))...)
	n.claimOne("a4")
}

// parkFailBefore: a dead letter holds only what comes after it.
func parkFailBefore[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	claims := n.claimOnly("a1", "a2", "a3")
	n.settle(failed(claims[0], time.Hour), parking(claims[1]), behind(claims[2]))
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOne("a1"))...)
	n.claimOnly()
	e.resolve(e.letter().Number, true)
	n.claimOne("a3")
}

func parkLateBefore[Tx any](e *env[Tx]) {
	n := e.join("r1")
	late := e.begin()
	a1 := msgs("a", "k", 1)
	isNew := e.enqueueIn(late, false, a1...)
	e.enqueue(msg("a2", "k"))
	n.settle(parking(n.claimOne("a2")))
	e.commit(late)
	e.took(a1, isNew)
	e.enqueue(msg("a3", "k"))
	claims := n.claimOnly("a1", "a3")
	n.settle(behind(claims[0]), behind(claims[1])) // blocked, as the relay sees them
	n.settle(published(n.claimOne("a1"))...)
	n.claimOnly()
}

// parkLateBeforeWaiting: a message that waits by itself takes nothing along past a dead letter before it.
func parkLateBeforeWaiting[Tx any](e *env[Tx]) {
	n := e.lateBeforeWaiting()
	n.settle(parking(n.claimOne("a1")))
	e.enqueue(msg("a3", "k"))
	n.settle(behind(n.claimOne("a3")))
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOne("a2"))...)
	n.claimOnly()
	e.resolve(e.letter().Number, true)
	n.claimOne("a3")
}

func parkFailed[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 2)...)
	claims := n.claimOnly("a1", "a2")
	st := parking(claims[0])
	st.Outcome = contract.Failed
	n.settle(st, behind(claims[1]))
	n.claimOnly()
	e.requeue(e.letter().Number, true)
	n.claimOnly("a1", "a2")
}

func parkWithoutKey[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "", 2)...)
	n.settle(parking(find(n.claim(), "a1")))
	if l := e.letter(); l.Parks || l.Behind != 0 {
		e.Errorf("letter = %+v, want that it parks nothing", l)
	}
	if c := n.claimOne("a2"); c.Blocked {
		e.Error("a2 is blocked although it has no key")
	}
}

func parkDestination[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a1", "k"))
	n.settle(fanout(n.claimOne("a1"), "x", "y"))
	for _, c := range n.claimOnly("a1", "a1") {
		if c.Destination == "x" {
			n.settle(parking(c))
		} else {
			n.settle(published(c)...)
		}
	}
	e.several("a1", "a2")
	e.enqueue(msg("a2", "k"))
	n.settle(fanout(n.claimOne("a2"), "x", "y"))
	c := n.claimOne("a2")
	if c.Destination != "y" {
		e.Fatalf("claimed a2 for %q, want y only", c.Destination)
	}
	n.settle(published(c)...)
	e.resolve(e.letter().Number, true)
	if c := n.claimOne("a2"); c.Destination != "x" {
		e.Errorf("claimed a2 for %q after the letter was resolved, want x", c.Destination)
	}
}

func (n *node[Tx]) wantParked(keys, messages int) {
	n.Helper()
	gotKeys, got, err := n.s.CountParked(n.ctx, n.lease.Lanes)
	n.must(err, "CountParked")
	if gotKeys != keys || got != messages {
		n.Errorf("CountParked() = %d keys, %d messages, want %d, %d", gotKeys, got, keys, messages)
	}
}

func parkCount[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.wantParked(0, 0)
	e.enqueue(msgs("b", "k2", 3)...)
	claims := n.claimOnly("b1", "b2", "b3")
	n.settle(failed(claims[0], time.Hour), behind(claims[1]), dead(claims[2]))
	n.wantParked(0, 0) // these wait for a retry, and that dead letter parks nothing
	e.enqueue(msgs("a", "k", 4)...)
	claims = n.claimOnly("a1", "a2", "a3", "a4")
	n.settle(parking(claims[0]), parking(claims[1]), behind(claims[2]), behind(claims[3]))
	n.wantParked(1, 2)
	e.enqueue(msg("c", "k3"))
	n.settle(parking(n.claimOne("c")))
	n.wantParked(2, 2)
	for _, l := range e.letters(deadletter.Filter{}) {
		if l.Parks {
			e.resolve(l.Number, true)
		}
	}
	n.wantParked(0, 0)
}

func parkCountLanes[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.parked()
	lane := n.laneOf(e.letter())
	keys, messages, err := e.s.CountParked(e.ctx, []contract.Lane{lane})
	e.must(err, "CountParked")
	if keys != 1 || messages != 3 {
		e.Errorf("CountParked() of the lane = %d, %d, want 1, 3", keys, messages)
	}
	others := []contract.Lane{}
	for _, l := range n.lease.Lanes {
		if l != lane {
			others = append(others, l)
		}
	}
	if keys, messages, err = e.s.CountParked(e.ctx, others); keys != 0 || messages != 0 || err != nil {
		e.Errorf("CountParked() of the other lanes = %d, %d, %v, want 0, 0", keys, messages, err)
	}
}

// laneOf returns the lane of a dead letter's key.
func (n *node[Tx]) laneOf(l deadletter.Letter) contract.Lane {
	n.Helper()
	n.enqueue(msg("probe", l.Message.Key))
	return n.claimOne("probe").Lane
}

func claimDueOnly[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("due", "k"))
	n.settle(failed(n.claimOne("due"), 0))
	e.enqueue(msg("new", "k2"))
	claims := n.claimWith(contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: allRows, Due: true, DueOnly: true})
	if got := claimedIDs(claims); len(got) != 1 || got[0] != "due" {
		e.Errorf("claimed %v, want what is due and nothing new", got)
	}
	n.claimOnly("due", "new")
}
