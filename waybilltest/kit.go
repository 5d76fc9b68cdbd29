package waybilltest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/memstore"
)

const (
	tick        = 10 * time.Millisecond // how far Wait advances the clock to see whether anything still happens
	maxTicks    = 100_000               // of one Wait
	maxActivity = 10_000                // messages published and handled during one Wait
	day         = 24 * time.Hour
)

// Kit is a store and a broker in memory, a relay between them, and the consumers of one
// process. All of it runs in the bubble of the test, and the clock is the bubble's. Its methods
// are called by the goroutine of the test; Outbox, Step and CrashAfter by handlers too.
type Kit struct {
	// Store holds outbox, inbox, dead letters and the values that handlers set.
	Store *memstore.Store

	// Broker is where the relay publishes.
	Broker *membroker.Broker

	t         *testing.T
	observer  observe.Observer
	faults    *Faults
	writer    *outbox.Writer[*memstore.Tx]
	recorder  *recorder
	consumers []consumes
	process   *process
	handled   atomic.Int64 // deliveries
}

// consumes holds the arguments of a consumer, to recreate it after a crash.
type consumes struct {
	from    consumer.Subscription
	handler consumer.Handler[*memstore.Tx]
	cfg     consumer.Config
}

// New starts an empty system, which ends with the test. It must be called within
// [synctest.Test], with the t that this passes; elsewhere it fails the test. Logs go to the
// test's output.
func New(t *testing.T) *Kit {
	t.Helper()
	needBubble(t)
	f := new(Faults)
	k := &Kit{
		Store: f.MemStore(), Broker: membroker.New(), t: t, faults: f,
		observer: observe.LogTo(slog.New(slog.NewTextHandler(t.Output(), nil))),
	}
	k.recorder = &recorder{inner: k.Broker.Publisher()}
	var err error
	k.writer, err = outbox.NewWriter(k.Store, outbox.Config{Source: "test", Observer: k.observer})
	k.must(err)
	r, err := relay.New(k.Store, k.recorder, relay.Config{
		Node: "waybilltest", Observer: k.observer,
		PollInterval: time.Minute, LeaseTTL: 30 * day, RenewInterval: 7 * day, // a long Advance is quick
	})
	k.must(err)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { k.note(r.Run(ctx)) })
	k.process = k.start()
	t.Cleanup(func() {
		stop()
		k.process.end()
		wg.Wait()
		k.finish()
	})
	return k
}

// needBubble ends a test that runs outside of a bubble, where it would wait in real time.
func needBubble(t *testing.T) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Fatal("waybilltest: New must be called within synctest.Test, with the t that it passes")
		}
	}()
	synctest.Wait()
}

// finish logs what a failed test did, and reports a crash that has not happened.
func (k *Kit) finish() {
	if k.faults.disarm() {
		k.t.Error("waybilltest: CrashAfter was called, and handlers have taken fewer steps since")
	}
	if k.t.Failed() {
		k.t.Log("waybilltest: what was delivered:\n  " + strings.Join(k.faults.schedule, "\n  "))
	}
}

// Outbox returns the writer that enqueues in the caller's transactions of [Kit.Store].
func (k *Kit) Outbox() *outbox.Writer[*memstore.Tx] { return k.writer }

// Enqueue commits messages to the outbox and waits as [Kit.Wait] does.
func (k *Kit) Enqueue(msgs ...waybill.Message) {
	k.t.Helper()
	_, err := k.writer.InTx(context.Background(), func(_ context.Context, _ *memstore.Tx, rec *outbox.Recorder) error {
		rec.Record(msgs...)
		return nil
	})
	k.must(err)
	k.Wait()
}

// Consume adds a consumer, as service.Service does. cfg.BatchSize must not be set. Messages
// published before are not delivered.
func (k *Kit) Consume(from consumer.Subscription, h consumer.Handler[*memstore.Tx], cfg consumer.Config) {
	k.t.Helper()
	if cfg.Observer == nil {
		cfg.Observer = k.observer
	}
	if cfg.RequeueInterval == 0 {
		cfg.RequeueInterval = 7 * day
	}
	c := consumes{from, h, cfg}
	k.consumers = append(k.consumers, c)
	k.must(k.process.consume(k, c))
}

// Wait lets relay and consumers work until they have nothing to do at this time. A crash by
// [Kit.CrashAfter] is followed by a new process. The clock advances only as far as needed to see
// that nothing more happens, some hundredths of a second; a handler that sleeps is waited for.
// After 10,000 messages published and handled it fails the test.
func (k *Kit) Wait() {
	k.t.Helper()
	first := k.activity()
	for range maxTicks {
		before := k.activity()
		if before-first > maxActivity {
			k.t.Fatalf("waybilltest: no end in sight after %d messages published and handled", maxActivity)
		}
		time.Sleep(tick)
		synctest.Wait()
		if k.faults.crashed() {
			k.process.end()
			k.faults.revive()
			k.process = k.start()
			continue
		}
		if !k.faults.busy() && k.activity() == before {
			return
		}
	}
	k.t.Fatalf("waybilltest: a handler is still running after %v", maxTicks*tick)
}

// activity counts what has happened.
func (k *Kit) activity() int64 { return k.handled.Load() + k.recorder.count() }

// Advance moves the clock on, so that retries, scheduled messages and timeouts come due, and
// then waits as [Kit.Wait] does. What comes due in between happens at its time. A week takes about a
// second.
func (k *Kit) Advance(d time.Duration) {
	k.t.Helper()
	time.Sleep(d)
	k.Wait()
}

// Redeliver delivers a copy of the latest published message with the given id to all consumers of
// its topic, as a broker or a relay may do at any time, and waits as [Kit.Wait] does.
// It fails the test if there is no such message.
func (k *Kit) Redeliver(id string) {
	k.t.Helper()
	m, ok := k.recorder.find(id)
	if !ok {
		k.t.Fatalf("waybilltest: no message with the id %q was published", id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	k.must(ignoreUnroutable(k.Broker.Publisher().Send(ctx, []contract.Outgoing{{Message: &m, DedupID: m.ID}})()[0]))
	k.Wait()
}

// DeadLetters waits as [Kit.Wait] does and returns the dead letters of relay and consumers, the
// oldest first, at most [deadletter.DefaultLimit].
func (k *Kit) DeadLetters() []deadletter.Letter {
	k.t.Helper()
	k.Wait()
	letters, err := k.Store.DeadLetters(context.Background(), deadletter.Filter{})
	k.must(err)
	for i := range letters { // with their payloads, which lists leave out
		letters[i], err = k.Store.DeadLetter(context.Background(), letters[i].Number)
		k.must(err)
	}
	return letters
}

// CrashAfter makes the process of the consumers crash when handlers have taken n more steps, before
// the next one: the current transaction rolls back, nothing is acknowledged, further calls of the
// handler fail, and a new process gets the delivery again. Steps are those of
// [memstore.WithSteps], of [Kit.Step], and, once a delivery is committed, its acknowledgement.
// The relay keeps running. A test that ends before the crash fails.
func (k *Kit) CrashAfter(n int) { k.faults.arm(crash, n) }

// Steps returns how many steps handlers have taken: a scenario of n steps can be repeated with
// [Kit.CrashAfter] 0 to n-1.
func (k *Kit) Steps() int { return k.faults.steps() }

// Step is a step of a fake of another system, as [Faults.Step] says.
func (k *Kit) Step(name string) error { return k.faults.Step(name) }

func (k *Kit) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// note fails the test, and may be called from any goroutine.
func (k *Kit) note(err error) {
	if err != nil {
		k.t.Error(fmt.Errorf("waybilltest: %w", err))
	}
}
