package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// childEnv holds the settings of a child process, which is this test binary again.
const childEnv = "WAYBILL_E2E_CHILD"

// The points at which a child says so on standard output and then stands still, waiting to
// be killed.
const (
	atCommitted    = "committed"     // writer: the business transaction has committed
	atSettle       = "before settle" // relay: the broker has confirmed, nothing is recorded
	atBeforeCommit = "before commit" // consumer: the handler has written its effect
	atBeforeAck    = "before ack"    // consumer: the transaction has committed
)

// child is what a child process is to do.
type child struct {
	Role   string // one of roles
	DSN    string
	Schema string
	Broker brokerSettings
	Halt   string     // the point to stand still at; "" for none
	Fail   bool       // consumer: the handler says never
	IDs    []string   // writer: what it enqueues; holder: the key
	Lease  leaseTimes // replica
	Node   string
	Strict bool
	Refuse bool   // replica: the publisher refuses some messages
	Record string // replica: the directory that its relay is recorded in; "" for none

	Retry     waybill.RetryPolicy // refuser, failer
	NoLetters bool                // refuser, failer: dead letters are disabled
	Poison    string              // poisoned, leaser: the id of the message that ends the process
	Leases    string              // leaser: the prefix in Redis
	Offsets   consumer.OffsetMode // keeper of offsets
	Shop      shop                // orders, depot, bank: instead of DSN and Schema
}

var roles = map[string]func(child, context.Context, *pgstore.Store[pgx.Tx]) error{
	"redis holder": child.holdRedis,
	"writer":       child.write, "relay": child.relay, "replica": child.replica, "consumer": child.consume,
	"refuser": child.refuse, "failer": child.fail, "poisoned": child.poisoned,
	"rerunner": child.rerun, "producer": child.produce, "billing": child.bill, "replayer": child.replayer,
	"leaser":  child.leaser,
	"batcher": child.batcher,
	"holder":  child.hold,

	"keeper of offsets": child.keepOffsets,

	"orders": child.orders, "depot": child.depot, "bank": child.bank,
}

// runChild is the main function of a child process.
func runChild(settings string) int {
	var c child
	if err := json.Unmarshal([]byte(settings), &c); err != nil {
		fmt.Println("child:", err)
		return 1
	}
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, c.DSN)
	if err != nil {
		fmt.Println("child:", err)
		return 1
	}
	store, err := pgstore.New(pool, pgstore.Config{Schema: c.Schema})
	if err == nil {
		err = roles[c.Role](c, ctx, store)
	}
	fmt.Println("child:", err)
	return 1
}

// halt reports that the child is at a point, and stands still if it is to: until it is
// killed, or for as long as a relay's lease takes to be lost.
func (c child) halt(point string) {
	if c.Halt == point {
		fmt.Println(point)
		<-time.After(2 * childLease.LeaseTTL)
	}
}

func (c child) write(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	w, err := outbox.NewWriter(store, outbox.Config{Source: "shop"})
	if err != nil {
		return err
	}
	_, err = w.InTx(ctx, func(_ context.Context, _ pgx.Tx, rec *outbox.Recorder) error {
		for _, id := range c.IDs {
			rec.Record(waybill.Message{ID: id, Topic: "orders", Payload: []byte(`{}`)})
		}
		return nil
	})
	c.halt(atCommitted)
	return err
}

// haltingSource stands still before the first settlement.
type haltingSource struct {
	contract.Source
	halt func()
}

func (s haltingSource) SettleMessages(ctx context.Context, req contract.SettleRequest) ([]int, error) {
	s.halt()
	return s.Source.SettleMessages(ctx, req)
}

func (c child) relay(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	b, err := c.Broker.open(ctx)
	if err != nil {
		return err
	}
	cfg := childLease
	cfg.Observer = announcer{}
	r, err := relay.New(haltingSource{store, func() { c.halt(atSettle) }}, b.Publisher(), quick(cfg))
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// announcer prints what a parent may wait for.
type announcer struct{ observe.Observer }

func (announcer) Start(ctx context.Context, _ observe.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (announcer) Observe(_ context.Context, e observe.Event) {
	switch e.Op {
	case observe.OpLanes, observe.OpLeaseLost, observe.OpRetry, observe.OpBusy, observe.OpDead, observe.OpFailed:
		fmt.Println(e.Op)
	case observe.OpSettle:
		if e.Err == nil {
			fmt.Println(e.Op)
		}
	case observe.OpLoop, observe.OpPause:
		if e.Err != nil {
			fmt.Println(e.Op, e.Err)
		}
	}
}

// haltingSubscriber stands still before the first acknowledgement.
type haltingSubscriber struct {
	contract.Subscriber
	halt func()
}

func (s haltingSubscriber) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	return s.Subscriber.Subscribe(ctx, prefetch, func(d contract.Delivery) { deliver(haltingDelivery{d, s.halt}) })
}

type haltingDelivery struct {
	contract.Delivery
	halt func()
}

func (d haltingDelivery) Ack(ctx context.Context) error {
	d.halt()
	return d.Delivery.Ack(ctx)
}

func (c child) consume(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	b, err := c.Broker.open(ctx)
	if err != nil {
		return err
	}
	w := &world{schema: c.Schema}
	var box contract.Inbox[pgx.Tx] = store
	s := from(b, consumer.Subscription{Group: c.Broker.group("billing"), Topics: []string{"orders"}})
	s.sub = haltingSubscriber{s.sub, func() { c.halt(atBeforeAck) }}
	cons, err := consumer.New(s, s.of, box, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		if c.Fail {
			return waybill.PermanentError(waybill.ReasonRejected, fmt.Errorf("never"))
		}
		if err := w.addEffect(ctx, tx, "billing", m.ID); err != nil {
			return err
		}
		c.halt(atBeforeCommit)
		return nil
	}, quickConsumer(consumer.Config{Observer: announcer{}}))
	if err != nil {
		return err
	}
	return cons.Run(ctx)
}

// process is a running child.
type process struct {
	cmd    *exec.Cmd
	errors bytes.Buffer  // what it has written to standard error, once it has ended
	ended  chan struct{} // closed when the child has said its last line

	mu    sync.Mutex
	lines []string
}

// startChild starts a child in the world. It is killed when the story ends.
func (w *world) startChild(t *testing.T, c child) *process {
	t.Helper()
	c.DSN, c.Schema = w.dsn, w.schema
	return startChild(t, c)
}

// startChild starts a child, which is killed when the story ends.
func startChild(t *testing.T, c child) *process {
	t.Helper()
	settings, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(settings))
	p.cmd.Stderr = &p.errors // a panic among it is none of the test's
	p.launch(t)
	return p
}

// launch starts the process and reads what it says.
func (p *process) launch(t *testing.T) {
	t.Helper()
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() && p.errors.Len() > 0 {
			t.Logf("child's standard error: %s", p.errors.String())
		}
	})
}

// wait waits until the child has said a line.
func (p *process) wait(t *testing.T, line string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("child said: %s", strings.Join(p.said(), " | "))
		}
	}()
	eventually(t, "the child says "+line, func() bool {
		for _, l := range p.said() {
			if l == line {
				return true
			}
		}
		return false
	})
}

func (p *process) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.lines...)
}

// kill ends the child as kill -9 does, and reaps it.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // reports the signal
	}
}

// stopped runs fn while the child is stopped by SIGSTOP.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

func (p *process) resume(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// childLease lets a killed relay's lanes go soon.
var childLease = relay.Config{LeaseTTL: replicasLease.LeaseTTL, RenewInterval: replicasLease.RenewInterval, PublishTimeout: replicasLease.PublishTimeout}
