package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/outbox"
)

const (
	testLimit = 15 * time.Minute // for one test, on a busy machine
	allRows   = 10_000           // a limit of claims and lists that no test reaches
	fewRows   = 100              // up to this number, each is looked up separately
	longTTL   = 24 * time.Hour
)

// env is the store of one test, with the helpers that tests share. A helper that fails ends
// the test.
type env[Tx any] struct {
	*testing.T
	h   Harness[Tx]
	s   Store[Tx]
	ctx context.Context

	enqueued []string        // ids that the store has taken
	exempt   map[string]bool // ids that are not in exactly one place, for a reason
	balanced bool            // the check at the end has been made
}

func newEnv[Tx any](t *testing.T, h Harness[Tx]) *env[Tx] {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit) // t.Context ends before the cleanups
	t.Cleanup(cancel)
	e := &env[Tx]{T: t, h: h, s: h.Open(t), ctx: ctx, exempt: make(map[string]bool)}
	t.Cleanup(e.checkBalance)
	return e
}

// checkBalance checks that no message was lost or doubled. It looks up each separately; of many,
// only those that are not exactly once in the lists of all states.
func (e *env[Tx]) checkBalance() {
	if e.Failed() || e.balanced {
		return
	}
	e.balanced = true
	suspects := e.enqueued
	if len(suspects) > fewRows {
		listed := e.inLists()
		suspects = slices.DeleteFunc(slices.Clone(suspects), func(id string) bool { return listed[id] == 1 })
	}
	for _, id := range suspects {
		if states := e.states(id); len(states) != 1 && !e.exempt[id] {
			e.Errorf("at the end message %s is in %d places, want 1: %s", id, len(states), places(states))
		}
	}
}

// inLists returns how often each message is in the lists of all states.
func (e *env[Tx]) inLists() map[string]int {
	e.Helper()
	times := make(map[string]int)
	for _, status := range inspect.Statuses() {
		list, err := e.s.OutboxMessages(e.ctx, inspect.Filter{Status: status, Limit: allRows})
		e.must(err, "OutboxMessages")
		if len(list) == allRows {
			e.Fatalf("%d or more messages are %s, more than any test has", allRows, status)
		}
		for _, state := range list {
			times[state.ID]++
		}
	}
	return times
}

// reopen opens the store again, as after a restart of the program.
func (e *env[Tx]) reopen() {
	e.Helper()
	e.s = e.h.Reopen(e.T, e.s)
	e.Cleanup(e.checkBalance) // before the new store is closed
}

// gone exempts messages from the check at the end: they left no trace, by contract.
func (e *env[Tx]) gone(ids ...string) {
	for _, id := range ids {
		e.exempt[id] = true
	}
}

// several exempts messages that are in several places, by contract.
func (e *env[Tx]) several(ids ...string) { e.gone(ids...) }

// msg returns a complete message to the topic "orders".
func msg(id, key string) waybill.Message {
	m := waybill.Message{ID: id, Topic: "orders", Key: key, Type: "order.created", Source: "shop", Payload: []byte(`{"id":"` + id + `"}`)}
	m.Complete()
	return m
}

// msgs returns messages of one key, with ids made of a prefix and 1, 2, 3 …
func msgs(prefix, key string, n int) []waybill.Message {
	list := make([]waybill.Message, n)
	for i := range list {
		list[i] = msg(fmt.Sprintf("%s%d", prefix, i+1), key)
	}
	return list
}

func ids(list []waybill.Message) []string {
	all := make([]string, len(list))
	for i := range list {
		all[i] = list[i].ID
	}
	return all
}

// enqueue stores messages in a transaction of the store and expects all to be new.
func (e *env[Tx]) enqueue(list ...waybill.Message) {
	e.Helper()
	isNew := e.transact(false, list...)
	if slices.Contains(isNew, false) {
		e.Fatalf("enqueue of %v: new = %v, want all true", ids(list), isNew)
	}
}

// transact stores messages in a transaction of the store and returns which were new.
func (e *env[Tx]) transact(unique bool, list ...waybill.Message) []bool {
	e.Helper()
	var isNew []bool
	e.must(repeatConflicts(func() (err error) {
		isNew, err = e.s.Transact(e.ctx, func(context.Context, Tx) (outbox.Batch, error) {
			return outbox.Batch{Messages: list, Remember: unique}, nil
		})
		return err
	}), "Transact")
	e.took(list, isNew)
	return isNew
}

// enqueueIn stores messages in a transaction of the test's.
func (e *env[Tx]) enqueueIn(tx Tx, unique bool, list ...waybill.Message) []bool {
	e.Helper()
	isNew, err := e.s.EnqueueMessages(e.ctx, tx, outbox.Batch{Messages: list, Remember: unique})
	e.must(err, "EnqueueMessages")
	return isNew
}

func (e *env[Tx]) took(list []waybill.Message, isNew []bool) {
	e.Helper()
	if len(isNew) != len(list) {
		e.Fatalf("%d results for %d messages", len(isNew), len(list))
	}
	for i := range list {
		if !isNew[i] {
			continue
		}
		if slices.Contains(e.enqueued, list[i].ID) {
			e.several(list[i].ID)
		}
		e.enqueued = append(e.enqueued, list[i].ID)
	}
}

func (e *env[Tx]) begin() Tx      { e.Helper(); return e.h.Begin(e.T, e.s) }
func (e *env[Tx]) commit(tx Tx)   { e.Helper(); e.h.Commit(e.T, tx) }
func (e *env[Tx]) rollback(tx Tx) { e.Helper(); e.h.Rollback(e.T, tx) }
func (e *env[Tx]) effect(tx Tx, name string) {
	e.Helper()
	e.must(e.h.Effect(e.ctx, e.s, tx, name), "Effect")
}

func (e *env[Tx]) wantEffects(name string, want int) {
	e.Helper()
	if got := e.h.Effects(e.T, e.s, name); got != want {
		e.Errorf("committed effects %q = %d, want %d", name, got, want)
	}
}

func (e *env[Tx]) advance(d time.Duration) { e.Helper(); e.h.Advance(e.T, e.s, d) }

func (e *env[Tx]) must(err error, what string) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", what, err)
	}
}

func (e *env[Tx]) states(id string) []inspect.MessageState {
	e.Helper()
	states, err := e.s.MessageStates(e.ctx, id)
	e.must(err, "MessageStates")
	return states
}

// want checks that each message is in exactly one place, which has the given status, and
// returns the last one's state.
func (e *env[Tx]) want(status inspect.Status, ids ...string) inspect.MessageState {
	e.Helper()
	var state inspect.MessageState
	for _, id := range ids {
		states := e.states(id)
		if len(states) != 1 || states[0].Status != status {
			e.Fatalf("message %s is in %d places (%s), want 1: %s", id, len(states), places(states), status)
		}
		state = states[0]
	}
	return state
}

// wantNowhere checks that the store knows nothing of the messages.
func (e *env[Tx]) wantNowhere(ids ...string) {
	e.Helper()
	for _, id := range ids {
		if states := e.states(id); len(states) > 0 {
			e.Errorf("message %s is in %d places (%s), want none", id, len(states), places(states))
		}
	}
}

func places(states []inspect.MessageState) string {
	var text string
	for _, s := range states {
		text += fmt.Sprintf("[%s %s]", s.Status, s.Destination)
	}
	return text
}

// eventually waits until condition holds.
func (e *env[Tx]) eventually(what string, condition func() bool) {
	e.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			e.Fatalf("waited in vain: %s", what)
		}
	}
}
