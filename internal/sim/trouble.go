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
			if w.plan.Churn {
				list = churnKinds
			}
			if kind := list[w.rand.IntN(len(list))]; slices.Contains(w.plan.Kinds, kind) {
				w.strike(kind)
			}
		})
	}
}

// strike lets a fault happen.
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
			w.say("an operator: %s a dead letter", kind)
			w.store.resolve(w.rand.IntN(n), kind == "requeue", w.clock())
		}
	case "stubborn":
		w.stubborn = fmt.Sprint("m", w.rand.IntN(w.plan.Messages))
		w.say("the store refuses what becomes of %s", w.stubborn)
	case "skew":
		if w.plan.Skewed {
			w.skew -= w.between(time.Second, time.Minute)
			w.say("the store's clock goes back to %v", w.clock())
		}
	default:
		w.strikeRelay(kind)
	}
}

// strikeRelay lets a fault happen to a relay.
func (w *world) strikeRelay(kind string) {
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
		n.resume = w.now + pause
	case "stop":
		w.say("%s stops", n.name)
		n.stop()
	}
}

// endTrouble ends all faults.
func (w *world) endTrouble() {
	w.say("no faults from now on")
	w.calm, w.stubborn = true, ""
	w.broker.heal()
	for i := len(w.store.dead) - 1; i >= 0; i-- {
		w.store.resolve(i, false, w.clock())
	}
}
