package main

import (
	"fmt"
	"slices"
	"time"
)

// trouble plans faults of the whole system.
func (w *world) trouble() {
	if w.plan.Faults == 0 {
		return
	}
	if w.rand.IntN(4) == 0 && slices.Contains(w.plan.Kinds, "poison") {
		w.broker.poison = fmt.Sprint("m", w.rand.IntN(w.plan.Messages))
	}
	most := min(40*time.Second, time.Duration(float64(2*time.Second)/w.plan.Faults))
	if w.plan.Churn {
		most = 4 * time.Second
	}
	for at := time.Duration(0); at < w.plan.For; at += w.between(time.Second, most) {
		w.after(at, func() {
			list := kinds
			switch {
			case w.plan.Slow:
				list = slowKinds
			case w.plan.Churn:
				list = churnKinds
			}
			if kind := list[w.rand.IntN(len(list))]; slices.Contains(w.plan.Kinds, kind) {
				w.strike(kind)
			}
		})
	}
}

// strike causes a fault.
func (w *world) strike(kind string) {
	switch kind {
	case "away":
		w.broker.fail()
	case "slow":
		w.broker.slowTopic = fmt.Sprint("t", w.rand.IntN(w.plan.Topics))
		w.say("topic %s is slow", w.broker.slowTopic)
	case "heal":
		w.broker.heal()
	case "requeue", "resolve":
		if n := len(w.store.dead); n > 0 {
			w.operate(w.rand.IntN(n), kind == "requeue")
		}
		for _, c := range w.broker.consumers {
			if n := len(c.letters); n > 0 && kind == "requeue" {
				c.requeue(w.rand.IntN(n))
			}
		}
	case "replay":
		w.replay()
	case "reader":
		for _, c := range w.broker.consumers {
			if i := w.rand.IntN(len(c.readers)); w.rand.IntN(2) == 0 {
				c.crash(i)
			} else {
				c.readers[i].resume = w.now + w.between(time.Second, 20*time.Second)
			}
		}
	case "stubborn":
		w.refuses = true
		w.stubborn = fmt.Sprint("m", w.rand.IntN(w.plan.Messages))
		w.say("the store refuses what becomes of %s", w.stubborn)
	case "skew":
		if w.plan.Skewed {
			w.skew -= w.between(time.Second, time.Minute)
			w.skewed = w.now
			w.say("the store's clock goes back to %v", w.clock())
		}
	default:
		w.strikeRelay(kind)
	}
}

// operate requeues or resolves a dead letter.
func (w *world) operate(i int, requeue bool) {
	r := w.store.dead[i]
	w.say("an operator: the letter of %s is requeued: %v", r.id, requeue)
	w.resolve(i, requeue)
	for _, n := range w.relays {
		n.wake()
	}
}

// resolve resolves or requeues a dead letter.
func (w *world) resolve(i int, requeue bool) {
	r := *w.store.dead[i]
	done := w.store.resolve(i, requeue, w.clock())
	w.alike(func(t twin) error { return t.resolved(&r, requeue, done) })
}

// replay requeues all dead letters, one after the other.
func (w *world) replay() {
	for n, r := range w.store.dead {
		w.after(time.Duration(n)*time.Second, func() {
			if i := slices.Index(w.store.dead, r); i >= 0 && !w.calm {
				w.operate(i, true)
			}
		})
	}
}

// strikeRelay causes a fault of a relay.
func (w *world) strikeRelay(kind string) {
	if kind == "visit" {
		w.visit()
		return
	}
	if len(w.relays) == 0 {
		return
	}
	n := w.relays[w.rand.IntN(len(w.relays))]
	switch kind {
	case "crash":
		w.say("%s crashes", n.name)
		w.crashes++
		n.gone = true
		n.replace()
	case "pause":
		pause := w.between(time.Second, 40*time.Second)
		if w.plan.Churn {
			pause = w.between(time.Second, 12*time.Second)
		}
		w.say("%s is paused for %v", n.name, pause)
		n.resume = max(n.resume, w.now+pause)
	case "cut":
		w.say("%s is cut off from the broker", n.name)
		n.cutOff = true
	case "blind":
		w.say("%s can read nothing from the store", n.name)
		n.blind = true
	case "jump":
		by := w.between(time.Second, 20*time.Second)
		if w.rand.IntN(2) == 0 {
			n.frozen, by = max(n.frozen, w.now)+by, -by
		}
		n.jump += by
		w.jumps = true
		n.monitor.jumped(max(w.now, n.frozen))
		w.say("the clock of %s jumps by %v", n.name, by)
	case "stop":
		w.say("%s stops", n.name)
		n.stop()
	}
}

// visit starts a relay that stops soon.
func (w *world) visit() {
	w.visits++
	n := w.startRelay(fmt.Sprint("v", w.visits))
	n.visits = true
	w.after(w.between(10*time.Millisecond, 4*time.Second), func() {
		if !n.gone && !n.stops {
			n.stop()
		}
	})
}

// endTrouble ends all faults.
func (w *world) endTrouble() {
	w.say("no faults from now on")
	w.calm, w.stubborn = true, ""
	w.broker.heal()
	for i := len(w.store.dead) - 1; i >= 0; i-- {
		w.resolve(i, false)
	}
}
