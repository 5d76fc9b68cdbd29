package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/service"
)

// TestServiceOnANewServer: messages that wait when a service starts for the first time find
// the queues of its consumers.
func TestServiceOnANewServer(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		w.enqueue(t, numbered("early", "orders", 100)...)
		svc, err := service.New(w.store, b.connect(t), service.Config{Source: "shop", Relay: quick(childLease), Observer: quiet})
		if err != nil {
			t.Fatal(err)
		}
		orders := consumer.Subscription{Group: b.group("billing"), Topics: []string{"orders"}}
		if err := svc.Consume(orders, w.effectHandler("billing"), consumer.Config{}); err != nil {
			t.Fatal(err)
		}
		if b.Kind == "rabbit" {
			t.Cleanup(func() { b.deleteQueue(t, "billing") })
		}
		run(t, t.Context(), svc.Run)
		eventually(t, "all are handled", func() bool {
			return w.number(t, "SELECT count(*) FROM "+w.table("effects")) == 100
		})
		w.waitLetters(t, deadletter.Filter{}, 0)
	})
}

// TestLocalHandlers run after the publish has settled; their failure publishes nothing again.
//
//test:sessions
func TestLocalHandlers(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		b := newBroker(t, "nats")
		svc, err := service.New(w.store, b.connect(t), service.Config{Source: "shop", Relay: quick(childLease), Observer: quiet})
		if err != nil {
			t.Fatal(err)
		}
		fails := consumer.Config{Retry: waybill.RetryPolicy{MaxRetries: waybill.NoRetries}}
		if err := svc.Local("projection", nil, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			if got := w.statuses(t, m.ID); len(got) == 0 || got[0] != inspect.Published && got[len(got)-1] != inspect.Published {
				t.Errorf("%s is %v when its local handler runs, want Published", m.ID, got)
			}
			if m.ID == "bad" {
				return waybill.PermanentError(waybill.ReasonRejected, context.DeadlineExceeded)
			}
			return w.addEffect(ctx, tx, "projection", m.ID)
		}, fails); err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), svc.Run)
		w.enqueue(t, waybill.Message{ID: "good", Topic: "orders"}, waybill.Message{ID: "bad", Topic: "orders"})
		w.waitEffects(t, "projection", "good", 1)
		if l := w.waitLetters(t, deadletter.Filter{}, 1)[0]; l.Consumer != "projection" || l.Message.ID != "bad" {
			t.Errorf("dead letter = %+v, want bad from projection", l)
		}
		if n := b.stored(t, ""); n != 2 {
			t.Errorf("the broker holds %d messages, want 2", n)
		}
	})
}

// TestFirstProgram builds the README's first program and runs it.
func TestFirstProgram(t *testing.T) {
	// Not parallel: it uses the default names of schema, exchange and queue.
	root := filepath.Join("..", "..")
	source, err := os.ReadFile(filepath.Join(root, "examples", "first", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "func main()")
	if !strings.Contains(string(readme), strings.TrimSpace(body)) {
		t.Error("README.md does not show examples/first/main.go as it is")
	}
	if n := strings.Count(body, "\n"); n >= 40 {
		t.Errorf("the first program has %d lines, want under 40", n)
	}

	w := plainWorld(t)
	clean := func() {
		w.exec(t, "DROP SCHEMA IF EXISTS waybill CASCADE")
		w.exec(t, "DROP TABLE IF EXISTS orders, invoices")
	}
	clean()
	b := brokerSettings{Kind: "rabbit", URL: rabbitURL(), Name: "waybill"}
	t.Cleanup(func() {
		if _, err := w.pool.Exec(context.Background(), "DROP SCHEMA IF EXISTS waybill CASCADE; DROP TABLE IF EXISTS orders, invoices"); err != nil {
			t.Error(err)
		}
		b.deleteNamedQueue(t, "billing")
		b.deleteExchange(t)
	})
	program := filepath.Join(t.TempDir(), "first")
	goBuild(t, root, program, withAddresses(t, string(source), map[string]string{
		"postgres://postgres@127.0.0.1:5432/test": postgresURL(),
		"amqp://guest:guest@127.0.0.1:5672/":      rabbitURL(),
	}))
	cmd := exec.CommandContext(t.Context(), program)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the order has an invoice", func() bool {
		var n int
		err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM invoices i JOIN orders o ON o.id = i.order_id").Scan(&n)
		return err == nil && n == 1
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v, want a clean end", err)
	}
}

// withAddresses writes a program's source to a file, with the addresses of servers replaced.
func withAddresses(t *testing.T, source string, addresses map[string]string) string {
	t.Helper()
	for from, to := range addresses {
		if n := strings.Count(source, strconv.Quote(from)); n != 1 {
			t.Fatalf("the program has %q %d times, want once", from, n)
		}
		source = strings.Replace(source, strconv.Quote(from), strconv.Quote(to), 1)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestConsumerLag asks a service how much waits for its consumers: what the broker has beyond
// the prefetch. A local consumer has no broker to ask.
func TestConsumerLag(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		svc, err := service.New(w.store, b.connect(t), service.Config{Source: "shop", Relay: quick(childLease), Observer: quiet})
		if err != nil {
			t.Fatal(err)
		}
		proceed := make(chan struct{})
		handle := func(ctx context.Context, _ pgx.Tx, _ *waybill.Message) error {
			select {
			case <-proceed:
			case <-ctx.Done():
			}
			return nil
		}
		sub := consumer.Subscription{Group: b.group("billing"), Topics: []string{"orders"}}
		if err := svc.Consume(sub, handle, consumer.Config{Concurrency: 2, Prefetch: 2}); err != nil {
			t.Fatal(err)
		}
		if err := svc.Local("projection", nil, handle, consumer.Config{}); err != nil {
			t.Fatal(err)
		}
		if b.Kind == "rabbit" {
			t.Cleanup(func() { b.deleteQueue(t, "billing") })
		}
		run(t, t.Context(), svc.Run)
		w.enqueue(t, numbered("m", "orders", 10)...)
		lag := func(want int64) func() bool {
			return func() bool {
				lags, err := svc.ConsumerLag(context.Background())
				return err == nil && len(lags) == 1 && lags[b.group("billing")].Messages == want
			}
		}
		eventually(t, "eight wait", lag(8))
		close(proceed)
		eventually(t, "none waits", lag(0))
	})
}
