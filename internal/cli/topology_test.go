package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
)

func rabbitURL() string {
	if u := os.Getenv("RABBITMQ_URL"); u != "" {
		return u
	}
	return "amqp://guest:guest@127.0.0.1:5672/"
}

// TestTopology plans, applies and breaks what was applied.
func TestTopology(t *testing.T) {
	t.Parallel()
	conn, err := amqp.Dial(rabbitURL())
	if err != nil {
		t.Fatalf("RabbitMQ does not answer (%v); start it with: make services", err)
	}
	t.Cleanup(func() { conn.Close() }) // after what is removed by it
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	id := waybill.NewID()
	exchange, queue := "cli-"+id, "billing-"+id
	t.Cleanup(func() {
		_, _ = ch.QueueDelete(queue, false, false, false) // only a test's leftovers
		_ = ch.ExchangeDelete(exchange, false, false)     // likewise
	})
	run := func(action string, more ...string) result {
		args := []string{"topology", action, "--broker", rabbitURL(), "--rabbitmq-exchange", exchange,
			"--topic", "orders", "--group", queue + "=orders"}
		return runProgram(t.Context(), nil, append(args, more...)...)
	}
	want := func(r result, code int, actions ...broker.Action) {
		t.Helper()
		var rows []stepRow
		if err := json.Unmarshal([]byte(r.stdout), &rows); err != nil || len(rows) != len(actions) || r.code != code {
			t.Fatalf("exit code %d, want %d, %s%s", r.code, code, r.stdout, r.stderr)
		}
		for i, row := range rows {
			if row.Action != actions[i] {
				t.Errorf("%+v, want the action %s", row, actions[i])
			}
		}
	}
	table := run("plan")
	for _, line := range []string{"ACTION", "create  exchange", "create  queue", "create  binding"} {
		if !strings.Contains(table.stdout, line) || table.code != exitOK {
			t.Errorf("exit code %d, %s%s lacks %q", table.code, table.stdout, table.stderr, line)
		}
	}
	want(run("plan", "--json"), exitOK, broker.Create, broker.Create, broker.Create)
	want(run("apply", "--json"), exitOK, broker.Create, broker.Create, broker.Create)
	want(run("apply", "--json"), exitOK, broker.Keep, broker.Keep, broker.Ensure)
	want(run("plan", "--json", "--rabbitmq-queue-type", "quorum"), exitOK, broker.Keep, broker.Keep, broker.Ensure)
	want(run("plan", "--json", "--rabbitmq-queue-type", "classic"), exitFailed, broker.Keep, broker.Conflict, broker.Conflict)
	want(run("plan", "--json", "--rabbitmq-dead-letter-exchange", "dead-"+id), exitFailed,
		broker.Keep, broker.Create, broker.Create, broker.Create, broker.Conflict, broker.Conflict)

	if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "classic"}); err != nil {
		t.Fatal(err)
	}
	if r := run("plan"); !strings.Contains(r.stdout, "is a classic queue") || r.code != exitOK {
		t.Errorf("exit code %d, %s%s lacks the type of the queue", r.code, r.stdout, r.stderr)
	}

	if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": int32(1)}); err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{"plan", "apply"} {
		want(run(action, "--json"), exitFailed, broker.Keep, broker.Conflict, broker.Conflict)
	}
}
