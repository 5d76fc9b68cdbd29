package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-go/waybill/internal/cli"
)

// TestRoutes runs one relay over RabbitMQ, NATS and a webhook, as its configuration file says.
// RabbitMQ is away when it starts: the others get what is theirs meanwhile, and RabbitMQ gets its
// own when it is there.
func TestRoutes(t *testing.T) {
	t.Parallel()
	const n = 20
	w := plainWorld(t)
	nats, rabbit, hook := newBroker(t, "nats"), newBroker(t, "rabbit"), newHook(t)
	rabbit.declareQueue(t, "workers", "task.run")
	proxied, proxy := rabbit.throughProxy(t)
	proxy.Refuse(true)
	file := filepath.Join(t.TempDir(), "waybill.yaml")
	text := fmt.Sprintf(`
rabbitmq.exchange: %s
nats: {stream: %s, subject_prefix: %s.}
webhook.allow_networks: 127.0.0.0/8
relay.poll_interval: 50ms
routes:
  - {name: events, broker: "%s", topics: ["event.*"]}
  - {name: tasks, broker: "%s", topics: ["task.*"]}
webhooks:
  - {name: hook, url: "%s", secrets: ["%s"], topics: ["event.*"]}
`, rabbit.Name, nats.Name, nats.Name, nats.URL, proxied.URL, hook.server.URL, string(hook.secret))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.enqueue(t, numbered("e", "event.seen", n)...)
	w.enqueue(t, numbered("t", "task.run", n)...)

	var stdout, stderr bytes.Buffer
	run(t, t.Context(), func(ctx context.Context) error {
		code := cli.Run(ctx, []string{"relay", "--config", file, "--store", w.dsn, "--schema", w.schema}, &stdout, &stderr)
		if code != 0 {
			return fmt.Errorf("exit code %d: %s", code, stderr.String())
		}
		return nil
	})
	counts := func(destination, condition string) int {
		return w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE id <> 'held' AND destination = $1 AND "+condition, destination)
	}
	eventually(t, "the others have all", func() bool {
		events, _ := hook.counts()
		return events == n && counts("events", "status = 'Published'") == n && counts("hook", "status = 'Published'") == n
	})
	if got := nats.stored(t, ""); got != n {
		t.Errorf("NATS holds %d messages, want %d", got, n)
	}
	if got := rabbit.stored(t, "workers"); got != 0 {
		t.Errorf("RabbitMQ holds %d messages while it is away", got)
	}
	if got := w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE topic = 'task.run' AND attempts = 0 AND status IN ('Waiting', 'Pending')"); got != n {
		t.Errorf("%d messages wait for RabbitMQ without an attempt counted, want %d", got, n)
	}

	proxy.Refuse(false)
	eventually(t, "RabbitMQ has all", func() bool {
		return counts("tasks", "status = 'Published'") == n && rabbit.stored(t, "workers") == n
	})
	if events, requests := hook.counts(); events != n || requests != n || hook.wrong != 0 {
		t.Errorf("the webhook got %d events in %d requests, %d wrong, want %d, each once", events, requests, hook.wrong, n)
	}
	w.nothingGivenUp(t)
}
