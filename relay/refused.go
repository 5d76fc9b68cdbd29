package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

const (
	refusedDelay    = time.Second // until a settlement that was refused is tried again; it doubles
	refusedDelayMax = 30 * time.Second
	failingHealthy  = time.Minute // how long one may be refused before the relay's health says so
)

// group is what is settled together or not at all: the messages of one key, or one without a key.
type group struct {
	topic, key string
	position   int64 // of a message without a key
}

func groupOf(c *Claim) group {
	if c.Message.Key == "" {
		return group{position: c.Position}
	}
	return group{topic: c.Message.Address(), key: c.Message.Key}
}

// groupsOf sorts settlements by group. Those of one group keep their order.
func groupsOf(list []Settlement) [][]Settlement {
	var groups [][]Settlement
	at := make(map[group]int)
	for _, st := range list {
		g := groupOf(st.Claim)
		i, known := at[g]
		if !known {
			i = len(groups)
			at[g], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], st)
	}
	return groups
}

// refusedSettlements are those that the store has refused by themselves. They are tried again
// apart from the others, which go on; what comes for their keys waits with them.
type refusedSettlements struct {
	mu     sync.Mutex
	groups map[group]*refusedGroup
}

type refusedGroup struct {
	list  []Settlement
	id    string // of the first of them
	delay time.Duration
	again time.Time
	tries tries
}

// add keeps a group that was refused until it is to be tried again. It returns for how long that has
// been so, and whether it is time to say it.
func (r *refusedSettlements) add(list []Settlement, err error) (age time.Duration, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.groups == nil {
		r.groups = make(map[group]*refusedGroup)
	}
	g := groupOf(list[0].Claim)
	of := r.groups[g]
	if of == nil {
		of = &refusedGroup{id: list[0].Claim.Message.ID, delay: refusedDelay}
		r.groups[g] = of
	}
	of.tries.begin()
	of.tries.end(err)
	of.list, of.again = list, time.Now().Add(of.delay)
	of.delay = min(2*of.delay, refusedDelayMax)
	return of.tries.overdue()
}

// remove forgets groups: they are settled.
func (r *refusedSettlements) remove(list []Settlement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.groups) == 0 {
		return
	}
	for i := range list {
		delete(r.groups, groupOf(list[i].Claim))
	}
}

// sort returns the settlements of list that may be tried now, and puts the others behind those
// that were refused.
func (r *refusedSettlements) sort(list []Settlement) []Settlement {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.groups) == 0 {
		return list
	}
	free := make([]Settlement, 0, len(list))
	for _, st := range list {
		if of := r.groups[groupOf(st.Claim)]; of != nil {
			of.list = append(of.list, st)
		} else {
			free = append(free, st)
		}
	}
	return free
}

// due takes out the groups that are to be tried again. What comes for their keys still waits,
// until each is added again or removed.
func (r *refusedSettlements) due() [][]Settlement {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list [][]Settlement
	for _, of := range r.groups {
		if now := time.Now(); len(of.list) > 0 && !now.Before(of.again) {
			list = append(list, of.list)
			of.list, of.again = nil, now.Add(of.delay)
		}
	}
	return list
}

// next returns how long until a group is to be tried again, and whether there is one.
func (r *refusedSettlements) next() (wait time.Duration, some bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range r.groups {
		if w := time.Until(of.again); !some || w < wait {
			wait, some = w, true
		}
	}
	return wait, some
}

// count returns how many settlements there are.
func (r *refusedSettlements) count() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range r.groups {
		n += len(of.list)
	}
	return n
}

func (r *refusedSettlements) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups = nil
}

// health returns an error if the store has refused a settlement for long.
func (r *refusedSettlements) health() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var oldest *refusedGroup
	for _, g := range r.groups {
		if oldest == nil || g.tries.since.Before(oldest.tries.since) {
			oldest = g
		}
	}
	if oldest == nil {
		return nil
	}
	age, err := oldest.tries.failing()
	if age < failingHealthy {
		return nil
	}
	return &waybill.StalledError{
		Loop: "relay settle", Age: age,
		Err: fmt.Errorf("the store refuses what became of %d keys or messages, the first of them %q: %w", len(r.groups), oldest.id, err),
	}
}

// refusesRows reports whether a settlement failed for what is in it, and not because the store
// could not be asked or met somebody else.
func refusesRows(err error) bool {
	kind := waybill.KindOf(err)
	return err != nil && kind != waybill.Unavailable && kind != waybill.Conflict && !errors.Is(err, context.DeadlineExceeded)
}
