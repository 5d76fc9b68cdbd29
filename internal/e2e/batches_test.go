package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/pgstore"
)

// script is a subscriber that delivers a list at once, and again what is to be retried. What is
// not settled when a subscription ends stays with the consumer.
type script struct {
	list  []waybill.Message
	onAck func(m *waybill.Message)
	told  atomic.Bool // the list is delivered

	mu    sync.Mutex
	acked []string
}

func (s *script) Subscribe(ctx context.Context, _ int, deliver func(contract.Delivery)) error {
	for i := range s.list {
		if s.told.Load() {
			break
		}
		m := s.list[i].Clone()
		deliver(&scripted{script: s, ctx: ctx, m: &m, deliver: deliver})
	}
	s.told.Store(true)
	<-ctx.Done()
	return nil
}

func (s *script) acks(id string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.acked {
		if a == id {
			n++
		}
	}
	return n
}

func (s *script) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acked) == len(s.list)
}

type scripted struct {
	*script
	ctx     context.Context
	m       *waybill.Message
	again   bool
	deliver func(contract.Delivery)
}

func (d *scripted) Message() (*waybill.Message, error) { return d.m, nil }
func (d *scripted) Redelivered() bool                  { return d.again }
func (d *scripted) Extend(context.Context) error       { return nil }

func (d *scripted) Ack(context.Context) error {
	if d.onAck != nil {
		d.onAck(d.m)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acked = append(d.acked, d.m.ID)
	return nil
}

func (d *scripted) Retry(_ context.Context, delay time.Duration) error {
	next := *d
	next.again = true
	time.AfterFunc(delay, func() {
		if d.ctx.Err() == nil {
			d.deliver(&next)
		}
	})
	return nil
}

// scriptOf delivers n messages of each key in turns: a0, b0, a1, b1 and so on.
func scriptOf(n int, keys ...string) *script {
	s := &script{}
	for i := range n {
		for _, key := range keys {
			m := waybill.Message{ID: fmt.Sprintf("%s%d", key, i), Topic: "orders", Key: key, Source: "shop", Payload: []byte(`{}`)}
			m.Complete()
			s.list = append(s.list, m)
		}
	}
	return s
}

// transactions returns how many have written the effects of a consumer.
func (w *world) transactions(t *testing.T, consumer string) int {
	t.Helper()
	return w.number(t, "SELECT count(DISTINCT xmin::text) FROM "+w.table("effects")+" WHERE consumer = $1", consumer)
}

// onceEach fails unless each message of the script has one effect and one acknowledgement.
func (w *world) onceEach(t *testing.T, s *script, name string) {
	t.Helper()
	for i := range s.list {
		id := s.list[i].ID
		if n := w.effects(t, name, id); n != 1 || s.acks(id) != 1 {
			t.Errorf("%s has %d effects and %d acks, want 1 and 1", id, n, s.acks(id))
		}
	}
}

// TestBatchesFailingHandler has one message among twenty fail for as long as the others take.
func TestBatchesFailingHandler(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn := b.connect(t)
		sub := b.subscribe(t, conn, "billing", "orders")
		for i := range 20 {
			publish(t, conn, waybill.Message{ID: fmt.Sprintf("m%d", i), Topic: "orders"}, fmt.Sprintf("m%d", i))
		}
		var fixed atomic.Bool
		var failed atomic.Int32
		cfg := consumer.Config{BatchSize: 50, Concurrency: 1}
		cfg.Retry = waybill.RetryPolicy{BaseDelay: 50 * time.Millisecond, MaxDelay: 50 * time.Millisecond, MaxRetries: 1000}
		w.startConsumer(t, sub, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			if err := w.addEffect(ctx, tx, "billing", m.ID); err != nil {
				return err
			}
			if m.ID == "m7" && !fixed.Load() {
				failed.Add(1)
				return errors.New("not yet")
			}
			return nil
		}, cfg)
		records := "SELECT count(*) FROM " + w.table("inbox") + " WHERE message_id "
		eventually(t, "the others are handled", func() bool { return w.number(t, records+"<> 'm7'") == 19 })
		eventually(t, "the one has come again", func() bool { return failed.Load() >= 3 })
		if n := w.number(t, records+"= 'm7'"); n != 0 || w.effects(t, "billing", "m7") != 0 {
			t.Errorf("the message that fails has %d records and %d effects, want none", n, w.effects(t, "billing", "m7"))
		}
		fixed.Store(true)
		w.waitEffects(t, "billing", "m7", 1)
		if n := w.number(t, "SELECT count(*) FROM "+w.table("effects")); n != 20 {
			t.Errorf("%d effects, want 20", n)
		}
		eventually(t, "the broker holds nothing", func() bool { return b.unsettled(t, "billing") == 0 })
	})
}

// TestBatchesDeadLetter has a message fail until it is dead: it has the attempts that it has
// without batches.
func TestBatchesDeadLetter(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		s := scriptOf(20, "a")
		cfg := consumer.Config{BatchSize: 50, Retry: waybill.RetryPolicy{BaseDelay: time.Millisecond, MaxRetries: 2}}
		w.startConsumer(t, toBilling(s), func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			if m.ID == "a7" {
				return errors.New("card expired")
			}
			return w.addEffect(ctx, tx, "billing", m.ID)
		}, cfg)
		l, err := w.store.DeadLetter(t.Context(), w.waitLetters(t, deadletter.Filter{}, 1)[0].Number)
		if err != nil {
			t.Fatal(err)
		}
		if l.Attempts != 3 || len(l.History) != 3 || l.Message.ID != "a7" {
			t.Errorf("the letter of %s tells of %d attempts, its history of %d, want a7 with 3", l.Message.ID, l.Attempts, len(l.History))
		}
		eventually(t, "all are acknowledged", s.done)
		if n := w.number(t, "SELECT count(*) FROM "+w.table("effects")); n != 19 {
			t.Errorf("%d effects, want 19", n)
		}
	})
}

// TestBatchesKeepOrderPerKey has one key fail while the others are handled.
func TestBatchesKeepOrderPerKey(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		const each = 40
		s := scriptOf(each, "a", "b", "c")
		var fixed atomic.Bool
		cfg := consumer.Config{BatchSize: 10, Concurrency: 2, Order: consumer.OrderByKey}
		cfg.Retry = waybill.RetryPolicy{BaseDelay: 20 * time.Millisecond, MaxDelay: 20 * time.Millisecond, MaxRetries: 1000}
		w.startConsumer(t, toBilling(s), func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			if m.ID == "a15" && !fixed.Load() {
				return errors.New("not yet")
			}
			return w.addEffect(ctx, tx, "billing", m.ID)
		}, cfg)
		effects := "SELECT count(*) FROM " + w.table("effects") + " WHERE message_id LIKE $1"
		for _, key := range []string{"b", "c"} {
			eventually(t, "key "+key+" is handled", func() bool { return w.number(t, effects, key+"%") == each })
		}
		eventually(t, "key a has come to the one that fails", func() bool { return w.number(t, effects, "a%") == 15 })
		fixed.Store(true)
		eventually(t, "all are acknowledged", s.done)
		w.onceEach(t, s, "billing")
		w.inKeyOrder(t, each, "a", "b", "c")
		if n := w.transactions(t, "billing"); n >= 3*each {
			t.Errorf("%d transactions for %d messages: there were no batches", n, 3*each)
		}
	})
}

// inKeyOrder fails unless the effects of each key were made in its order.
func (w *world) inKeyOrder(t *testing.T, each int, keys ...string) {
	t.Helper()
	for _, key := range keys {
		rows, err := w.pool.Query(t.Context(), "SELECT message_id FROM "+w.table("effects")+" WHERE message_id LIKE $1 ORDER BY n", key+"%")
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		want := make([]string, each)
		for i := range want {
			want[i] = fmt.Sprintf("%s%d", key, i)
		}
		if !slices.Equal(got, want) {
			t.Errorf("key %s was handled as %v", key, got)
		}
	}
}

// TestBatchesAcknowledgeAfterCommit looks at each acknowledgement for what another session
// sees.
func TestBatchesAcknowledgeAfterCommit(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		s := scriptOf(30, "a", "b")
		s.onAck = func(m *waybill.Message) {
			if n := w.effects(t, "billing", m.ID); n != 1 {
				t.Errorf("%s is acknowledged with %d effects committed, want 1", m.ID, n)
			}
		}
		w.startConsumer(t, toBilling(s), w.effectHandler("billing"), consumer.Config{BatchSize: 20})
		eventually(t, "all are acknowledged", s.done)
		if n := w.transactions(t, "billing"); n >= 60 {
			t.Errorf("%d transactions for 60 messages: there were no batches", n)
		}
	})
}

// TestBatchesDuplicates delivers each message twice, side by side and far from each other.
func TestBatchesDuplicates(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		s, ops := scriptOf(30, "a"), newOpCounter()
		s.list = append(slices.Repeat(s.list[:1], 2), append(s.list, s.list...)...)
		w.startConsumer(t, toBilling(s), w.effectHandler("billing"), consumer.Config{BatchSize: 100, Concurrency: 1, Observer: ops})
		eventually(t, "all are acknowledged", s.done)
		if n := w.number(t, "SELECT count(*) FROM "+w.table("effects")); n != 30 || ops.count(observe.OpDuplicate) != 32 {
			t.Errorf("%d effects and %d duplicates, want 30 and 32", n, ops.count(observe.OpDuplicate))
		}
	})
}

// TestBatchesTakeWhatIsThere holds the only handler with the first message: what has come
// meanwhile is the next batch. One in that fails, and the others are a batch again.
func TestBatchesTakeWhatIsThere(t *testing.T) {
	t.Parallel()
	w, s := plainWorld(t), scriptOf(101, "a")
	free := make(chan struct{})
	var first sync.Once
	sub := &announcing{script: s, delivered: func() { close(free) }}
	w.startConsumer(t, toBilling(sub), func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		first.Do(func() { <-free })
		if m.ID == "a60" {
			return waybill.PermanentError(waybill.ReasonRejected, errors.New("card expired"))
		}
		return w.addEffect(ctx, tx, "billing", m.ID)
	}, consumer.Config{BatchSize: 50, Concurrency: 1, Prefetch: 101})
	eventually(t, "all are acknowledged", s.done)
	if n := w.transactions(t, "billing"); n > 5 {
		t.Errorf("%d transactions for 101 messages, want at most 5", n)
	}
	if n := w.number(t, "SELECT count(*) FROM "+w.table("effects")); n != 100 {
		t.Errorf("%d effects, want 100", n)
	}
}

// announcing is a script that tells when it has delivered everything.
type announcing struct {
	*script
	delivered func()
}

func (a *announcing) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	n := 0
	return a.script.Subscribe(ctx, prefetch, func(d contract.Delivery) {
		deliver(d)
		if n++; n == len(a.list) {
			a.delivered()
		}
	})
}

// TestBatchesKilled kills a consumer as kill -9 does, while three handlers of one transaction
// have run, or when a batch has committed and nothing of it is acknowledged.
func TestBatchesKilled(t *testing.T) {
	t.Parallel()
	for _, point := range []string{atBeforeCommit, atBeforeAck} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w, b := plainWorld(t), newBroker(t, "rabbit")
			conn := b.connect(t)
			sub := b.subscribe(t, conn, "billing", "orders")
			for i := range 60 {
				publish(t, conn, waybill.Message{ID: fmt.Sprintf("m%d", i), Topic: "orders"}, fmt.Sprintf("m%d", i))
			}
			killed := w.startChild(t, child{Role: "batcher", Broker: b, Halt: point})
			killed.wait(t, point)
			killed.kill()
			w.startConsumer(t, sub, w.effectHandler("billing"), consumer.Config{BatchSize: 50})
			eventually(t, "all are handled", func() bool { return w.number(t, "SELECT count(*) FROM "+w.table("inbox")) == 60 })
			eventually(t, "the broker holds nothing", func() bool { return b.unsettled(t, "billing") == 0 })
			rows := w.number(t, "SELECT count(*) FROM "+w.table("effects"))
			ids := w.number(t, "SELECT count(DISTINCT message_id) FROM "+w.table("effects"))
			if rows != 60 || ids != 60 {
				t.Errorf("%d effects of %d messages, want 60 of 60", rows, ids)
			}
		})
	}
}

// batcher consumes in batches. It stands still before the commit of one with three messages at
// least, or before its first acknowledgement.
func (c child) batcher(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	b, err := c.Broker.open(ctx)
	if err != nil {
		return err
	}
	w := &world{schema: c.Schema}
	var of pgx.Tx
	handled := 0 // in the latest transaction
	s := from(b, consumer.Subscription{Group: c.Broker.group("billing"), Topics: []string{"orders"}})
	s.sub = haltingSubscriber{s.sub, func() {
		if handled >= 3 {
			c.halt(atBeforeAck)
		}
	}}
	cons, err := consumer.New(s, s.of, contract.Inbox[pgx.Tx](store), func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		if of != tx {
			of, handled = tx, 0
		}
		if handled++; handled == 3 {
			c.halt(atBeforeCommit)
		}
		return w.addEffect(ctx, tx, "billing", m.ID)
	}, quickConsumer(consumer.Config{BatchSize: 50, Concurrency: 1, Observer: announcer{}}))
	if err != nil {
		return err
	}
	return cons.Run(ctx)
}

// TestHandleBatch has a handler that writes all its effects with one statement. One message
// is never good: the others of its batch are handled one by one.
//
//test:sessions
func TestHandleBatch(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		s := scriptOf(50, "a", "b")
		var largest atomic.Int64
		handler := func(ctx context.Context, tx pgx.Tx, msgs []*waybill.Message) error {
			largest.Store(max(largest.Load(), int64(len(msgs))))
			ids := make([]string, len(msgs))
			for i, m := range msgs {
				ids[i] = m.ID
			}
			if _, err := tx.Exec(ctx, "INSERT INTO "+w.table("effects")+" (consumer, message_id) SELECT 'billing', unnest($1::text[])", ids); err != nil {
				return err
			}
			if slices.Contains(ids, "b30") {
				return waybill.PermanentError(waybill.ReasonRejected, errors.New("card expired"))
			}
			return nil
		}
		from := toBilling(s)
		c, err := consumer.NewBatch(from, from.of, w.store, handler, quickConsumer(consumer.Config{Concurrency: 1}))
		if err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), c.Run)
		eventually(t, "all are acknowledged", s.done)
		if l := w.waitLetters(t, deadletter.Filter{}, 1)[0]; l.Message.ID != "b30" || l.Attempts != 1 {
			t.Errorf("the letter is of %s with %d attempts, want b30 with 1", l.Message.ID, l.Attempts)
		}
		if n := w.number(t, "SELECT count(*) FROM "+w.table("effects")); n != 99 || largest.Load() < 2 {
			t.Errorf("%d effects, %d messages at most in a batch; want 99, and batches", n, largest.Load())
		}
	})
}

// TestBatchesOfService has both kinds of batches in one service.
func TestBatchesOfService(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), membroker.New()
	cfg := service.Config{Source: "shop", Observer: quiet, Relay: quick(relay.Config{}), Consumer: quickConsumer(consumer.Config{BatchSize: 20})}
	svc, err := service.New(w.store, b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	topics := []string{"orders"}
	if err := svc.Consume(consumer.Subscription{Group: "one", Topics: topics}, w.effectHandler("one"), consumer.Config{}); err != nil {
		t.Fatal(err)
	}
	many := func(ctx context.Context, tx pgx.Tx, msgs []*waybill.Message) error {
		for _, m := range msgs {
			if err := w.addEffect(ctx, tx, "many", m.ID); err != nil {
				return err
			}
		}
		return nil
	}
	if err := svc.ConsumeBatch(consumer.Subscription{Group: "many", Topics: topics}, many, consumer.Config{}); err != nil {
		t.Fatal(err)
	}
	w.enqueue(t, numbered("m", "orders", 100)...)
	run(t, t.Context(), svc.Run)
	for _, name := range []string{"one", "many"} {
		eventually(t, name+" has handled all", func() bool {
			return w.number(t, "SELECT count(*) FROM "+w.table("inbox")+" WHERE consumer = $1", name) == 100
		})
		if n := w.number(t, "SELECT count(DISTINCT message_id) FROM "+w.table("effects")+" WHERE consumer = $1", name); n != 100 {
			t.Errorf("%s has effects of %d messages, want 100", name, n)
		}
	}
}

func TestBatchesRefused(t *testing.T) {
	t.Parallel()
	w, none := plainWorld(t), toBilling(silent{})
	for name, cfg := range map[string]consumer.Config{
		"BatchSize": {BatchSize: 1001},
		"Prefetch":  {BatchSize: 100, Prefetch: 50},
	} {
		_, err := consumer.New(none, none.of, w.store, w.effectHandler("billing"), cfg)
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || !strings.HasSuffix(invalid.Field, name) {
			t.Errorf("New() = %v, want an InvalidError about %s", err, name)
		}
	}
	one := struct{ contract.Inbox[pgx.Tx] }{w.store}
	if _, err := consumer.New(none, none.of, one, w.effectHandler("billing"), consumer.Config{BatchSize: 2}); err == nil {
		t.Error("New() takes BatchSize 2 with an inbox that has no batches")
	}
}
