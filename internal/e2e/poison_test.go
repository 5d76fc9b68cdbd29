package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/store/pgstore"
)

// poisoned runs a consumer that one message kills.
func (c child) poisoned(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	b, err := c.Broker.open(ctx)
	if err != nil {
		return err
	}
	w := &world{schema: c.Schema}
	sub := consumer.Subscription{Group: c.Broker.group("billing"), Topics: []string{"orders"}}
	cons, err := consumer.New(b, sub, store, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		fmt.Println("begins", m.ID)
		if err := w.addEffect(ctx, tx, "billing", m.ID); err != nil {
			return err
		}
		if m.ID == c.Poison {
			_, _ = tx.Exec(ctx, "SELECT pg_sleep(0.1)") // others begin meanwhile
			endProcess(c.Node)
		}
		_, err := tx.Exec(ctx, "SELECT pg_sleep(0.3)")
		fmt.Println("ends", m.ID)
		return err
	}, quickConsumer(consumer.Config{Concurrency: 5, Observer: announcer{}}))
	if err != nil {
		return err
	}
	return cons.Run(ctx)
}

// endProcess ends this process in a way that no handler can report, and does not return.
func endProcess(how string) {
	switch how {
	case "out of memory": // what the kernel does then
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "panic elsewhere":
		_ = syscall.Close(2) // a trace in the output of the tests would look like theirs
		go func() { panic("in a goroutine of the handler's") }()
	default:
		os.Exit(3)
	}
	select {}
}

// TestPoisonEndsItsProcess (AS-26) has one of twenty messages kill every process that handles it,
// up to five at a time. The others have their effect once. It is a dead letter after three
// starts that were recorded; the first, of which nobody knew that it would matter, was
// not.
func TestPoisonEndsItsProcess(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "rabbit")
	conn := b.connect(t)
	b.subscribe(t, conn, "billing", "orders")
	for _, m := range numbered("m", "orders", 20) {
		publish(t, conn, m, m.ID)
	}
	ways := []string{"exit", "out of memory", "panic elsewhere"}
	var lives [][]string
	for done := false; !done; {
		if len(lives) > 10 {
			t.Fatal("the poison is still no dead letter after ten processes")
		}
		p := w.startChild(t, child{Role: "poisoned", Broker: b, Poison: "m7", Node: ways[len(lives)%len(ways)]})
		eventually(t, "the process ends, or everything is done", func() bool {
			done = w.number(t, "SELECT count(*) FROM "+w.table("effects")) >= 19 && w.number(t, "SELECT count(*) FROM "+w.table("dead_letters")) > 0
			select {
			case <-p.ended:
				return true
			default:
				return done
			}
		})
		p.kill()
		lives = append(lives, p.said())
	}
	l := w.waitLetters(t, deadletter.Filter{}, 1)[0]
	if l.Message.ID != "m7" || l.Reason != waybill.ReasonPoison || l.Origin != deadletter.FromConsumer || l.Attempts != 3 {
		t.Errorf("letter = %+v, want m7 as poison after three starts", l)
	}
	for _, m := range numbered("m", "orders", 20) {
		want := 1
		if m.ID == "m7" {
			want = 0
		}
		if n := w.effects(t, "billing", m.ID); n != want {
			t.Errorf("%d effects of %s, want %d", n, m.ID, want)
		}
	}
	checkLives(t, lives, "m7")
}

// checkLives looks at what processes have said: the message has begun in each of four, with
// others at first, and alone at last.
func checkLives(t *testing.T, lives [][]string, poison string) {
	t.Helper()
	var others []int // in flight when the message killed a process
	for _, lines := range lives {
		running := map[string]bool{}
		for _, line := range lines {
			switch verb, id, _ := strings.Cut(line, " "); verb {
			case "begins":
				running[id] = true
			case "ends":
				delete(running, id)
			}
		}
		if running[poison] {
			others = append(others, len(running)-1)
		}
	}
	if len(others) != 4 || others[0] == 0 || others[2] != 0 || others[3] != 0 {
		t.Errorf("processes killed, by the number of others in flight: %v; want four, some at first, and none in the last two", others)
	}
}

// TestOutageIsNoPoison (AS-26) cuts the store off again and again while a message is handled that
// nothing is wrong with: what could not be recorded about its end does not count against
// it.
func TestOutageIsNoPoison(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "rabbit")
	conn := b.connect(t)
	sub := b.subscribe(t, conn, "billing", "orders")
	proxied, proxy := w.throughProxy(t)
	reached, proceed, ops := make(chan struct{}), make(chan struct{}), newOpCounter()
	cons, err := consumer.New(sub, sub.of, proxied, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		reached <- struct{}{}
		<-proceed
		return w.addEffect(ctx, tx, "billing", m.ID)
	}, quickConsumer(consumer.Config{Observer: ops}))
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), cons.Run)
	publish(t, conn, waybill.Message{ID: "m", Topic: "orders"}, "m")
	for round := range 5 { // the first start of all is not recorded
		<-reached
		proxy.Refuse(true)
		proxy.Cut()
		proceed <- struct{}{}
		eventually(t, "the end of the attempt could not be recorded", func() bool {
			return ops.count(observe.OpPause) > 0 && ops.count(observe.OpSettle) >= round
		})
		proxy.Refuse(false)
	}
	<-reached
	proceed <- struct{}{}
	w.waitEffects(t, "billing", "m", 1)
	w.waitLetters(t, deadletter.Filter{}, 0)
	if n := w.number(t, "SELECT count(*) FROM "+w.table("consumer_attempts")); n != 0 {
		t.Errorf("%d messages with attempts are left, want none", n)
	}
}
