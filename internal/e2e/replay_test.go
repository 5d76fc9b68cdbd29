package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// quickRamp reaches 200 letters per second within a second.
var quickRamp = deadletter.ReplayerConfig{PollInterval: 100 * time.Millisecond, RampStep: 100 * time.Millisecond, Observer: quiet}

// replayer is a process that drives replays, and nothing else.
func (c child) replayer(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	r, err := deadletter.NewReplayer(store, quickRamp)
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// refuse returns a recorder that refuses everything.
func refuseAll() *recorder {
	return &recorder{fail: func(contract.Outgoing) error {
		return waybill.PermanentError(waybill.ReasonRejected, errors.New("no such queue"))
	}}
}

// TestReplaySurvivesKill kills the process that drives a replay of 300 letters in the middle.
// Another one goes on: every message is published once, in the order of its key.
func TestReplaySurvivesKill(t *testing.T) {
	t.Parallel()
	const count, keys = 300, 10
	w := plainWorld(t)
	list := numbered("m", "orders", count)
	for i := range list {
		list[i].Key = fmt.Sprint("k", i%keys)
	}
	w.enqueue(t, list...)
	_, stop := w.startRelay(t, refuseAll(), relay.Config{})
	eventually(t, "all are dead", func() bool {
		return w.number(t, "SELECT count(*) FROM "+w.table("dead_letters")) == count
	})
	stop()

	pub := &recorder{}
	w.startRelay(t, pub, relay.Config{})
	number := startReplay(t, w.store, deadletter.Plan{Rate: 200})
	driver := w.startChild(t, child{Role: "replayer"})
	eventually(t, "a fifth is requeued", func() bool { return replayOf(t, w.store, number).Requeued >= count/5 })
	driver.kill()
	middle := replayOf(t, w.store, number)
	if middle.State != deadletter.Running || middle.Requeued == count {
		t.Fatalf("replay = %+v, want it in the middle", middle)
	}
	runReplayer(t, w.store, quickRamp)
	eventually(t, "all are published", func() bool { return len(pub.ids()) >= count })
	eventually(t, "the replay is done", func() bool { return replayOf(t, w.store, number).State == deadletter.Done })
	if r := replayOf(t, w.store, number); r.Requeued != count || r.Skipped != 0 || r.Failed != 0 {
		t.Errorf("replay = %+v, want all requeued", r)
	}
	next := make(map[string]int)
	for _, m := range pub.all() {
		if want := list[next[m.Key]*keys+slices.Index(keyNames(keys), m.Key)].ID; m.ID != want {
			t.Fatalf("of key %s message %s was published, want %s: once each, in order", m.Key, m.ID, want)
		}
		next[m.Key]++
	}
	w.everyIDOnce(t, count)
}

func keyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("k", i)
	}
	return names
}

// all returns the accepted messages, in order, without those held open.
func (p *recorder) all() []waybill.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []waybill.Message
	for _, m := range p.sent {
		if m.ID != "held" {
			list = append(list, *m.Message)
		}
	}
	return list
}

// TestReplayStopsWhileItFails replays letters whose cause is not repaired: the replay stops
// by itself and leaves the rest alone.
//
//test:sessions
func TestReplayStopsWhileItFails(t *testing.T) {
	t.Parallel()
	const count = 200
	w := plainWorld(t)
	w.enqueue(t, numbered("m", "orders", count)...)
	w.startRelay(t, refuseAll(), relay.Config{})
	w.waitLetters(t, deadletter.Filter{Limit: 2 * count}, count)
	number := startReplay(t, w.store, deadletter.Plan{Rate: 20})
	runReplayer(t, w.store, quickRamp)
	eventually(t, "the replay stops", func() bool { return replayOf(t, w.store, number).State == deadletter.Stopped })
	if r := replayOf(t, w.store, number); r.Problem == "" || r.Requeued == count {
		t.Errorf("replay = %+v, want it stopped in the middle, with the problem", r)
	}
	w.waitLetters(t, deadletter.Filter{Limit: 2 * count}, count)
	w.everyIDOnce(t, count)
}
