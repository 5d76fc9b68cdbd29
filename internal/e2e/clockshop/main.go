// Command clockshop is one process of a shop whose wall clock can be moved. The test builds it with the tag movable and an overlay
// of package time, which has [time.MoveClock] then.
//
//	clockshop SETTINGS
//
// Each line of its standard input is a duration by which the clock is moved; it answers with what time it is. It prints
// a line for each thing it has done, and works until SIGTERM.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/store/pgstore"
)

// settings say what the process does, and where.
type settings struct {
	Role, Node         string
	DSN, Schema        string
	BrokerURL, Name    string // RabbitMQ and the exchange
	Group              string
	Ahead              time.Duration // of its clock, from the start
	LeaseTTL           time.Duration // of lanes and keys
	StoreTimeout, Work time.Duration // consumers
}

// shop is the process.
type shop struct {
	settings
	pool   *pgxpool.Pool
	store  *pgstore.Store[pgx.Tx]
	broker *rabbitbroker.Broker
}

var quiet = observe.LogTo(slog.New(slog.DiscardHandler))

func main() {
	var s shop
	err := json.Unmarshal([]byte(os.Args[1]), &s.settings)
	if err == nil {
		moveClock(s.Ahead)
		go listen()
		err = s.run()
	}
	fmt.Println("ended:", err)
}

// listen moves the clock.
func listen() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		by, err := time.ParseDuration(lines.Text())
		if err != nil {
			fmt.Println(err)
			continue
		}
		began := time.Now()
		moveClock(by)
		now := time.Now()
		fmt.Println("clock", now.UTC().Format(time.RFC3339), now.Sub(began).Round(time.Minute))
	}
}

func (s *shop) run() (err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if s.pool, err = pgxpool.New(ctx, s.DSN); err != nil {
		return err
	}
	if s.store, err = pgstore.New(s.pool, pgstore.Config{Schema: s.Schema}); err != nil {
		return err
	}
	if s.broker, err = rabbitbroker.Open(ctx, rabbitbroker.Config{URL: s.BrokerURL, Exchange: s.Name}); err != nil {
		return err
	}
	part, err := map[string]func() (runner, error){"producer": s.producer, "relay": s.relay, "consumer": s.consumer, "leased": s.leased}[s.Role]()
	if err != nil {
		return err
	}
	return part.Run(ctx)
}

type runner interface {
	Run(ctx context.Context) error
}

func (s *shop) table(name string) string { return pgx.Identifier{s.Schema, name}.Sanitize() }

// producer commits orders.
type producer struct {
	*shop
	writer    *outbox.Writer[pgx.Tx]
	scheduler *schedule.Scheduler[pgx.Tx]
}

func (s *shop) producer() (_ runner, err error) {
	p := &producer{shop: s}
	if p.writer, err = outbox.NewWriter(s.store, outbox.Config{Source: "shop", Observer: quiet}); err != nil {
		return nil, err
	}
	p.scheduler, err = schedule.NewScheduler(s.store, schedule.Config{Source: "shop", Observer: quiet})
	return p, err
}

// Run commits one order after the other: two in four at once, one delayed and one scheduled.
func (p *producer) Run(ctx context.Context) error {
	for n := 0; ctx.Err() == nil; n++ {
		if err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error { return p.order(ctx, tx, n) }); err != nil {
			fmt.Println(err)
		}
		fmt.Println("done")
		<-time.After(10 * time.Millisecond) // a pace that the others keep up with
	}
	return nil
}

const delay = time.Second

func (p *producer) order(ctx context.Context, tx pgx.Tx, n int) (err error) {
	id := fmt.Sprintf("%s-%d", p.Node, n)
	var due time.Time
	insert := "INSERT INTO " + p.table("orders") + " VALUES ($1, clock_timestamp() + $2) RETURNING due"
	m := waybill.Message{ID: id, Topic: "orders", Payload: []byte(`{}`)}
	switch n % 4 {
	case 0:
		if err = tx.QueryRow(ctx, insert, id, delay).Scan(&due); err == nil {
			_, err = p.scheduler.After(ctx, tx, m, delay)
		}
		return err
	case 1:
		err = tx.QueryRow(ctx, insert, id, delay).Scan(&due)
		m.DeliverAt = due
	default:
		m.Key = fmt.Sprint(n % 20)
		err = tx.QueryRow(ctx, insert, id, time.Duration(0)).Scan(&due)
	}
	if err == nil {
		_, err = p.writer.Enqueue(ctx, tx, m)
	}
	return err
}

func (s *shop) relay() (runner, error) {
	return relay.New(s.store, s.broker.Publisher(), relay.Config{
		Node: s.Node, PollInterval: 100 * time.Millisecond, LeaseTTL: s.LeaseTTL, RenewInterval: min(s.LeaseTTL/20, time.Second), PublishTimeout: s.LeaseTTL / 3, Observer: announcer{},
	})
}

// consumer writes one effect for each message, in the transaction of the inbox.
func (s *shop) consumer() (runner, error) {
	handler := func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+s.table("effects")+" (consumer, message_id) VALUES ($1, $2)", "billing", m.ID)
		return err
	}
	return consumer.New(s.broker, s.subscription(), s.store, handler, consumer.Config{StoreTimeout: s.StoreTimeout, Observer: announcer{}})
}

// leased writes one effect for each message in a transaction of its own, and takes its time.
func (s *shop) leased() (runner, error) {
	handler := func(ctx context.Context, m *waybill.Message) error {
		<-time.After(s.Work)
		_, err := s.pool.Exec(ctx, "INSERT INTO "+s.table("leased_effects")+" (message_id) VALUES ($1)", m.ID)
		return err
	}
	leases := consumer.Leases{Bus: "bus", TTL: s.LeaseTTL, Letters: consumer.LettersIn(s.store)}
	return consumer.NewLeased(s.broker, s.subscription(), s.store, handler, leases, consumer.Config{Observer: announcer{}})
}

func (s *shop) subscription() consumer.Subscription {
	return consumer.Subscription{Group: s.Group, Topics: []string{"orders"}}
}

// announcer prints what the test waits for, and what must not happen.
type announcer struct{}

func (announcer) Start(ctx context.Context, _ observe.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (announcer) Observe(_ context.Context, e observe.Event) {
	switch e.Op {
	case observe.OpSettle, observe.OpHandle:
		if e.Err == nil {
			fmt.Println("done")
		}
	case observe.OpLeaseLost, observe.OpRetry, observe.OpBusy, observe.OpDead:
		fmt.Println(e.Op, e.Err)
	case observe.OpLoop:
		if e.Err != nil {
			fmt.Println(e.Op, e.Loop, e.Err)
		}
	}
}
