package main

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/relay"
)

// sentOnce keeps what it is sent, and then ends the run.
type sentOnce struct {
	sent chan contract.Outgoing
}

func (s sentOnce) Send(_ context.Context, out []contract.Outgoing) func() []error {
	for _, m := range out {
		s.sent <- m
	}
	return func() []error { return make([]error, len(out)) }
}

// TestFloor_SameMessage: the loop by hand sends what a relay does, so that a broker gets as many bytes.
func TestFloor_SameMessage(t *testing.T) {
	t.Parallel()
	err := openTestBench(t).inWorld(t.Context(), func(w *world) error {
		if err := w.fill(t.Context(), 1); err != nil {
			return err
		}
		_, byHand, err := readByHand(t.Context(), w.pool, 0)
		if err != nil {
			return err
		}
		to := sentOnce{make(chan contract.Outgoing, 1)}
		r, err := relay.New(w.store, to, relay.Config{Observer: quiet})
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		sent := <-to.sent
		stop()
		if err := <-ended; err != nil {
			return err
		}
		if len(byHand) != 1 || byHand[0].DedupID != sent.DedupID {
			t.Fatalf("by hand %d messages, want 1 with the id for deduplication %q", len(byHand), sent.DedupID)
		}
		got, want := reflect.ValueOf(*byHand[0].Message), reflect.ValueOf(*sent.Message)
		for i := range want.NumField() {
			if g, w := got.Field(i).Interface(), want.Field(i).Interface(); !reflect.DeepEqual(g, w) {
				t.Errorf("%s by hand = %#v, want %#v", want.Type().Field(i).Name, g, w)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestFollowByHand_LateCommit: a message that commits after one with a later position is sent, too.
func TestFollowByHand_LateCommit(t *testing.T) {
	t.Parallel()
	err := openTestBench(t).inWorld(t.Context(), func(w *world) error {
		late, err := w.pool.Begin(t.Context())
		if err != nil {
			return err
		}
		defer func() { _ = late.Rollback(t.Context()) }() // after Commit it does nothing
		if _, err := late.Exec(t.Context(), fillSQL, []int{1}, []byte("{}")); err != nil {
			return err
		}
		if err := w.exec(t.Context(), fillSQL, []int{2}, []byte("{}")); err != nil {
			return err
		}
		to := sentOnce{make(chan contract.Outgoing, 2)}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- followByHand(ctx, w.pool, to, time.Millisecond, func(int) {}) }()
		if key := (<-to.sent).Key; key != "k2" {
			t.Errorf("first sent %s, want k2", key)
		}
		if err := late.Commit(t.Context()); err != nil {
			return err
		}
		if key := (<-to.sent).Key; key != "k1" {
			t.Errorf("then sent %s, want k1", key)
		}
		stop()
		return <-ended
	})
	if err != nil {
		t.Error(err)
	}
}

// TestHandleByHand_Twice: the gate by hand lets a message through once.
func TestHandleByHand_Twice(t *testing.T) {
	t.Parallel()
	err := openTestBench(t).inWorld(t.Context(), func(w *world) error {
		if err := w.exec(t.Context(), businessTableSQL); err != nil {
			return err
		}
		m := w.arrival()
		for range 2 {
			if err := handleByHand(t.Context(), w.pool, &m); err != nil {
				return err
			}
		}
		n, err := one[int](t.Context(), w, "SELECT count(*) FROM business")
		if n != 1 {
			t.Errorf("the message had its effect %d times, want once", n)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
