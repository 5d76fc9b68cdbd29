package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

// produce commits orders, each with its message, until it is killed. An order that is in the
// table was committed with its message, whatever the process got to know of it.
func (c child) produce(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	w := &world{schema: c.Schema}
	writer, err := outbox.NewWriter(store, outbox.Config{Source: "shop", Observer: quiet})
	if err != nil {
		return err
	}
	topics := c.Broker.topics()
	for n := 0; ; n++ {
		id := fmt.Sprintf("%s-%d", c.Node, n)
		_, err := writer.InTx(ctx, func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
			rec.Record(waybill.Message{ID: id, Topic: topics[n%len(topics)], Key: fmt.Sprint(n % 20), Payload: []byte(`{}`)})
			_, err := tx.Exec(ctx, "INSERT INTO "+w.table("orders")+" VALUES ($1)", id)
			return err
		})
		if err != nil {
			fmt.Println(err)
		}
		<-time.After(10 * time.Millisecond) // a pace that the others keep up with
	}
}

// bill runs a consumer that writes one effect for each message.
func (c child) bill(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	b, err := c.Broker.openPatiently(ctx)
	if err != nil {
		return err
	}
	w := &world{schema: c.Schema}
	sub := consumer.Subscription{Group: c.Broker.group("billing"), Topics: c.Broker.topics()}
	cons, err := consumer.New(b, sub, store, w.effectHandler("billing"), quickConsumer(consumer.Config{Observer: announcer{}}))
	if err != nil {
		return err
	}
	return cons.Run(ctx)
}

// soakPart is a place for one process, with ways of its own to broker and database.
type soakPart struct {
	replica
	world *world // as the process sees it
	db    *faultproxy.Proxy
	away  []func() // end what lasts until the next interruptions
}

// soak interrupts the processes of a whole system.
type soak struct {
	rng    *rand.Rand
	parts  []*soakPart
	starts int
	done   map[string]int // interruptions by name
}

// newSoak starts two processes of each kind, with ways to broker and database that can be cut if it is proxied.
func newSoak(t *testing.T, w *world, b brokerSettings, proxied bool) *soak {
	t.Helper()
	s := &soak{rng: rand.New(rand.NewPCG(chosenSeed(t), 69)), done: make(map[string]int)}
	for _, role := range []string{"producer", "replica", "billing"} {
		for range 2 {
			p := &soakPart{world: w}
			p.settings = child{Role: role, Broker: b, Lease: replicasLease}
			if proxied {
				p.settings.Broker, p.proxy = b.throughProxy(t)
				p.world, p.db = w.behindProxy(t)
			}
			s.parts = append(s.parts, p)
			s.start(t, p)
		}
	}
	return s
}

func (s *soak) start(t *testing.T, p *soakPart) {
	t.Helper()
	s.starts++
	p.start(t, p.world, fmt.Sprintf("%s-%d", p.settings.Role, s.starts))
}

// interrupt ends what has lasted long enough, and does one thing more to some process.
func (s *soak) interrupt(t *testing.T) {
	t.Helper()
	p := s.parts[s.rng.IntN(len(s.parts))]
	s.recover(t, p)
	type way struct {
		name string
		do   func()
	}
	ways := []way{
		{"kill", func() { p.kill() }},
		{"kill", func() { p.kill() }}, // twice as often as the others
		{"pause", func() { p.process.stop(t); p.stopped = 1 }},
	}
	if p.proxy != nil {
		ways = append(ways,
			way{"cut broker", p.proxy.Cut},
			way{"cut database", p.db.Cut},
			way{"broker away", func() { p.refuse(p.proxy) }},
			way{"database away", func() { p.refuse(p.db) }})
	}
	chosen := ways[s.rng.IntN(len(ways))]
	s.done[chosen.name]++
	chosen.do()
}

// refuse takes a server away from a process.
func (p *soakPart) refuse(proxy *faultproxy.Proxy) {
	proxy.Refuse(true)
	proxy.Cut()
	p.away = append(p.away, func() { proxy.Refuse(false) })
}

// silence lets nothing pass between a process and a server, over connections that stay open.
func (p *soakPart) silence(proxy *faultproxy.Proxy) {
	proxy.Stall(true)
	p.away = append(p.away, func() { proxy.Stall(false) })
}

// recover brings a process, and what it needs, back.
func (s *soak) recover(t *testing.T, p *soakPart) {
	t.Helper()
	for _, end := range p.away {
		end()
	}
	p.away = nil
	switch {
	case p.process == nil:
		s.start(t, p)
	case p.stopped > 0:
		p.process.resume(t)
		p.stopped = 0
	}
}

func (s *soak) recoverAll(t *testing.T) {
	t.Helper()
	for _, p := range s.parts {
		s.recover(t, p)
	}
}

// finish ends the producers and brings everybody else back.
func (s *soak) finish(t *testing.T) {
	t.Helper()
	s.recoverAll(t)
	for _, p := range s.parts {
		if p.settings.Role == "producer" {
			p.kill()
		}
	}
}

// TestSoak (AS-69) interrupts producers, relays and consumers at random: processes are killed and
// paused, and their connections to broker and database cut and refused. It does so for ten
// minutes, or, unless it soaks, for twelve seconds (1:50), and until there are orders. Every order
// that was committed has its effect once, nothing else has, and every message is in one place.
//
//test:soak
func TestSoak(t *testing.T) {
	t.Parallel()
	brokers, lasts, every := []string{"rabbit"}, 12*time.Second, 300*time.Millisecond
	if soaking() {
		brokers, lasts, every = []string{"rabbit", "nats"}, 10*time.Minute, 500*time.Millisecond
	}
	for _, kind := range brokers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w, b := plainWorld(t), newBroker(t, kind)
			b.subscribe(t, b.connect(t), "billing", "orders")
			s := newSoak(t, w, b, true)
			for began := time.Now(); time.Since(began) < lasts || w.number(t, "SELECT count(*) FROM "+w.table("orders")) == 0; {
				<-time.After(time.Duration(s.rng.Int64N(int64(2 * every))))
				s.interrupt(t)
			}
			s.finish(t)
			w.checkSoak(t, s)
		})
	}
}

func (w *world) checkSoak(t *testing.T, s *soak) {
	t.Helper()
	w.awaitPublished(t)
	w.awaitEffects(t)
	s.killAll()
	committed := w.number(t, "SELECT count(*) FROM "+w.table("orders"))
	t.Logf("%d orders, %d processes, interruptions: %v", committed, s.starts, s.done)
	w.everyIDOnce(t, committed)
	w.checkNothingElse(t)
}

func (w *world) awaitPublished(t *testing.T) {
	t.Helper()
	within(t, 6*patience, "every message is published", func() bool {
		return w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE status <> 'Published'") == 0
	})
}

func (w *world) awaitEffects(t *testing.T) {
	t.Helper()
	within(t, 6*patience, "every order has its effect", func() bool {
		return w.number(t, "SELECT count(*) FROM "+w.table("orders")+" o WHERE NOT EXISTS (SELECT 1 FROM "+w.table("effects")+" e WHERE e.message_id = o.id)") == 0
	})
}

func (s *soak) killAll() {
	for _, p := range s.parts {
		p.kill()
	}
}

// checkNothingElse fails if an effect came twice, or of what was no order, or a message is dead.
func (w *world) checkNothingElse(t *testing.T) {
	t.Helper()
	orders, effects := w.table("orders"), w.table("effects")
	for what, sql := range map[string]string{
		"effects that came twice":      "SELECT count(*) FROM (SELECT 1 FROM " + effects + " GROUP BY message_id HAVING count(*) > 1) d",
		"effects of what was no order": "SELECT count(*) FROM " + effects + " e WHERE NOT EXISTS (SELECT 1 FROM " + orders + " o WHERE o.id = e.message_id)",
		"dead letters":                 "SELECT count(*) FROM " + w.table("dead_letters"),
	} {
		if n := w.number(t, sql); n != 0 {
			t.Errorf("%d %s, want none", n, what)
		}
	}
}
