package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/store/pgstore"
)

// leaser runs a leased consumer whose handler does not come back before its context ends, or
// ends the process. What it then writes is late, and it says that it has succeeded.
func (c child) leaser(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	leases, _, err := openRedis(redisURL(), c.Leases)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, c.DSN)
	if err != nil {
		return err
	}
	b, err := c.Broker.open(ctx)
	if err != nil {
		return err
	}
	w := &world{schema: c.Schema, pool: pool, store: store}
	sub := consumer.Subscription{Group: c.Broker.group("mailer"), Topics: []string{"orders"}}
	cons, err := consumer.NewLeased(b, sub, leases, func(ctx context.Context, m *waybill.Message) error {
		fmt.Println("begins", m.ID)
		switch {
		case m.ID == c.Poison:
			endProcess(c.Node)
		case c.Poison != "":
			return w.leasedEffect("mailer")(ctx, m)
		}
		<-ctx.Done()
		taken, err := w.writeFenced(context.WithoutCancel(ctx), m.ID, "child")
		fmt.Println("written:", taken, err)
		return nil
	}, w.leases(consumer.Leases{}), quickConsumer(consumer.Config{Observer: announcer{}, Retry: c.Retry}))
	if err != nil {
		return err
	}
	return cons.Run(ctx)
}

// writeFenced writes to a resource that takes no write with a token older than the last one.
func (w *world) writeFenced(ctx context.Context, id, writer string) (taken bool, err error) {
	l, _ := lease.FromContext(ctx)
	tag, err := w.pool.Exec(ctx, "INSERT INTO "+w.table("fenced")+` AS f VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET token = excluded.token, writer = excluded.writer WHERE f.token < excluded.token`, id, l.Token, writer)
	return tag.RowsAffected() == 1, err
}

func (w *world) createFenced(t *testing.T) {
	t.Helper()
	w.exec(t, "CREATE TABLE "+w.table("fenced")+" (id text PRIMARY KEY, token bigint, writer text)")
}

// TestLeasedKilledHolder kills a process in its handler. Another one gets the message from the
// broker, or a copy, at once, and takes it over when the lease has ended. The attempt that was killed counts.
func TestLeasedKilledHolder(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		store, prefix := redisLeases(t, redisURL())
		conn, ops, tokens := b.connect(t), newOpCounter(), make(chan int64, 10)
		s := b.subscribe(t, conn, "mailer", "orders")
		if b.Kind == "nats" { // which waits longer than a lease before it delivers again
			s.sub = b.subscribe(t, conn, "copies", "orders").sub
		}
		p := w.startChild(t, child{Role: "leaser", Broker: b, Leases: prefix})
		m := waybill.Message{ID: "m", Topic: "orders", Source: "shop", Type: "orders"}
		publish(t, conn, m, "m")
		p.wait(t, "begins m")
		p.kill()
		effect := w.leasedEffect("mailer")
		w.startLeased(t, s, store, func(ctx context.Context, m *waybill.Message) error {
			l, _ := lease.FromContext(ctx)
			tokens <- l.Token
			return effect(ctx, m)
		}, consumer.Leases{}, consumer.Config{Observer: ops})
		w.waitEffects(t, "mailer", "m", 1)
		if token := <-tokens; token != 2 {
			t.Errorf("the handler has token %d, want that of the second lease", token)
		}
		key := lease.KeyOf("bus", b.group("mailer"), &m).String()
		eventually(t, "the message is marked", func() bool {
			rec, err := store.ReadLease(context.Background(), key)
			return err == nil && rec.Status == lease.Processed && rec.Attempts == 2
		})
		if n := ops.count(observe.OpRetry) + ops.count(observe.OpDead); n != 0 {
			t.Errorf("%d failures counted, want none", n)
		}
	})
}

// TestLeasedStoppedHolder stops a process in its handler for longer than its lease. Another one
// takes the message over, and what the first one does when it wakes up changes nothing: a
// resource that looks at tokens refuses its write, and its success is no mark.
func TestLeasedStoppedHolder(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "nats")
	w.createFenced(t)
	store, prefix := redisLeases(t, redisURL())
	conn := b.connect(t)
	p := w.startChild(t, child{Role: "leaser", Broker: b, Leases: prefix})
	m := waybill.Message{ID: "m", Topic: "orders", Source: "shop", Type: "orders"}
	publish(t, conn, m, "m")
	p.wait(t, "begins m")
	p.stop(t)
	written, proceed := make(chan bool, 1), make(chan struct{})
	s := b.subscribe(t, conn, "mailer", "orders")
	s.sub = b.subscribe(t, conn, "copies", "orders").sub // the broker may give no more to the process that is stopped
	w.startLeased(t, s, store, func(ctx context.Context, m *waybill.Message) error {
		taken, err := w.writeFenced(ctx, m.ID, "parent")
		written <- taken
		<-proceed
		return err
	}, consumer.Leases{}, consumer.Config{})
	if !<-written {
		t.Error("the second holder's write was refused")
	}
	p.resume(t)
	p.wait(t, "written: false <nil>")
	p.wait(t, string(observe.OpLeaseLost))
	key := lease.KeyOf("bus", b.group("mailer"), &m).String()
	if rec, err := store.ReadLease(t.Context(), key); err != nil || rec.Status != lease.Busy || rec.Token != 2 {
		t.Errorf("after the late mark: %+v, %v; want the second holder's lease", rec, err)
	}
	close(proceed)
	eventually(t, "the second holder's mark counts", func() bool {
		rec, err := store.ReadLease(context.Background(), key)
		return err == nil && rec.Status == lease.Processed && rec.Token == 2
	})
	if n := w.number(t, "SELECT count(*) FROM "+w.table("fenced")+" WHERE writer = 'parent' AND token = 2"); n != 1 {
		t.Error("the resource does not have what the second holder wrote")
	}
}

// TestLeasedPoison has one of ten messages kill every process that handles it. The others have
// their effect; it is a dead letter after three attempts, the last two of which ran alone.
func TestLeasedPoison(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "rabbit")
	_, prefix := redisLeases(t, redisURL())
	conn := b.connect(t)
	b.subscribe(t, conn, "mailer", "orders")
	for _, m := range numbered("m", "orders", 10) {
		publish(t, conn, m, m.ID)
	}
	kills := 0
	for done := false; !done; kills++ {
		if kills > 10 {
			t.Fatal("the poison is still no dead letter after ten processes")
		}
		p := w.startChild(t, child{Role: "leaser", Broker: b, Leases: prefix, Poison: "m4", Node: "out of memory", Retry: waybill.RetryPolicy{MaxRetries: waybill.NoRetries}})
		eventually(t, "the process ends, or everything is done", func() bool {
			done = w.number(t, "SELECT count(DISTINCT message_id) FROM "+w.table("effects")) == 9 && w.number(t, "SELECT count(*) FROM "+w.table("dead_letters")) > 0
			select {
			case <-p.ended:
				return true
			default:
				return done
			}
		})
		p.kill()
		if said := p.said(); kills == 3 && slices.Contains(said, "begins m4") {
			t.Error("the message was handled a fourth time")
		}
	}
	if l := w.waitLetters(t, deadletter.Filter{}, 1)[0]; l.Message.ID != "m4" || l.Reason != waybill.ReasonPoison || l.Attempts != 3 {
		t.Errorf("letter = %+v, want m4 as poison after three attempts", l)
	}
}

// TestLeasedLetterWithoutMark stops a consumer between the letter of a message and its mark. The
// next one makes no second letter.
func TestLeasedLetterWithoutMark(t *testing.T) {
	t.Parallel()
	w, b, ops := plainWorld(t), newBroker(t, "nats"), newOpCounter()
	proxied, proxy, store := proxiedLeases(t)
	conn := b.connect(t)
	cfg := consumer.Config{Observer: ops, ShutdownGrace: 50 * time.Millisecond}
	s := b.subscribe(t, conn, "mailer", "orders")
	c, err := consumer.NewLeased(s, s.of, proxied, func(context.Context, *waybill.Message) error {
		proxy.Refuse(true)
		proxy.Cut()
		return waybill.PermanentError(waybill.ReasonRejected, errors.New("never"))
	}, w.leases(consumer.Leases{}), quickConsumer(cfg))
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, t.Context(), func(ctx context.Context) error {
		_ = c.Run(ctx) // on a busy machine it ends before the mark is abandoned, and says so
		return nil
	})
	m := waybill.Message{ID: "m", Topic: "orders", Source: "shop", Type: "orders"}
	publish(t, conn, m, "m")
	w.waitLetters(t, deadletter.Filter{}, 1)
	stop()
	key := lease.KeyOf("bus", b.group("mailer"), &m).String()
	if rec, err := store.ReadLease(t.Context(), key); err != nil || rec.Status == lease.Processed {
		t.Fatalf("after the stop: %+v, %v; want it not marked", rec, err)
	}
	w.startLeased(t, b.subscribe(t, conn, "mailer", "orders"), store, func(context.Context, *waybill.Message) error {
		return waybill.PermanentError(waybill.ReasonRejected, errors.New("never"))
	}, consumer.Leases{}, cfg)
	eventually(t, "the message is marked", func() bool {
		rec, err := store.ReadLease(context.Background(), key)
		return err == nil && rec.Status == lease.Processed
	})
	w.waitLetters(t, deadletter.Filter{}, 1)
	if n := ops.count(observe.OpDead); n != 1 {
		t.Errorf("%d letters counted, want one", n)
	}
}

// TestRenewalKeepsTheLease (AS-50) has a handler run for two leases' time while a copy of its
// message comes: nobody else runs it. Then the store is cut off: the handler's context ends
// before anybody else can have the lease. Scaled 1:50 from a handler of five minutes.
func TestRenewalKeepsTheLease(t *testing.T) {
	t.Parallel()
	w, b, ops := plainWorld(t), newBroker(t, "nats"), newOpCounter()
	proxied, proxy, store := proxiedLeases(t)
	const ttl = 2 * leaseTTL
	conn := b.connect(t)
	began, ended, finish := make(chan string, 10), make(chan error, 10), make(chan struct{})
	w.startLeased(t, b.subscribe(t, conn, "mailer", "orders"), proxied, func(ctx context.Context, m *waybill.Message) error {
		began <- m.ID
		select {
		case <-finish:
		case <-ctx.Done():
			ended <- context.Cause(ctx)
		}
		return ctx.Err()
	}, consumer.Leases{TTL: ttl}, consumer.Config{Observer: ops, HandlerTimeout: time.Hour, ShutdownGrace: 5 * time.Second})
	m := waybill.Message{ID: "m", Topic: "orders", Source: "shop", Type: "orders"}
	publish(t, conn, m, "m")
	<-began
	publish(t, conn, m, "m#copy")
	<-time.After(2 * ttl)
	request := lease.Request{Key: lease.KeyOf("bus", b.group("mailer"), &m).String(), TTL: time.Minute}
	if a, err := store.TryBegin(t.Context(), request); err != nil || a.Status != lease.Busy || len(ended) != 0 || len(began) != 0 {
		t.Fatalf("after two leases' time: %+v, %v, %d ended and %d more begun; want the first one's renewed lease", a, err, len(ended), len(began))
	}
	proxy.Refuse(true)
	proxy.Cut()
	eventually(t, "somebody else can begin the message", func() bool {
		a, err := store.TryBegin(context.Background(), request)
		return err == nil && a.Status == lease.Acquired
	})
	if len(ended) != 1 {
		t.Error("the handler's context had not ended when somebody else could begin")
	}
	proxy.Refuse(false)
	close(finish)
	eventually(t, "the lease is known to be lost", func() bool { return ops.count(observe.OpLeaseLost)+ops.count(observe.OpPause) > 0 })
}
