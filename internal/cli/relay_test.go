package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/outbox"
)

func natsURL() string {
	if u := os.Getenv("NATS_URL"); u != "" {
		return u
	}
	return "nats://127.0.0.1:4222"
}

// newStream reserves the name of a stream, removed in the end.
func newStream(t *testing.T) string {
	t.Helper()
	name := "cli-" + waybill.NewID()[24:]
	t.Cleanup(func() {
		conn, err := nats.Connect(natsURL())
		if err != nil {
			t.Errorf("NATS does not answer (%v); start it with: make services", err)
			return
		}
		defer conn.Close()
		js, err := jetstream.New(conn)
		if err != nil {
			t.Error(err)
			return
		}
		if err := js.DeleteStream(context.Background(), name); err != nil {
			t.Errorf("delete stream: %v", err)
		}
	})
	return name
}

// published waits until every message of the store is.
func published(t *testing.T, cfg opener.StoreConfig) {
	t.Helper()
	store, err := opener.OpenStore(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(time.Minute)
	for {
		stats, err := store.OutboxStats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		left := false
		for _, s := range stats {
			left = left || s.Consumer == "" && s.Status != outbox.Published
		}
		if !left {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("not published within 30 s: %+v", stats)
		}
	}
}

// relay publishes what is there, and ends well when it is told to.
func TestRelay(t *testing.T) {
	t.Parallel()
	cfg := opener.StoreConfig{URL: postgresURL(), Schema: "cli-relay-" + waybill.NewID()[24:]}
	fillStore(t, cfg)
	t.Cleanup(func() { dropSchema(t, cfg) })
	stream := newStream(t)
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"relay", "--json", "--log-format", "json", "--store", cfg.URL, "--schema", cfg.Schema,
			"--broker", natsURL(), "--nats-stream", stream, "--nats-subject-prefix", stream + "."}, nil, &stdout, &stderr)
	}()
	published(t, cfg)
	cancel()
	if code := <-done; code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	var got map[string]int
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil || got["published"] != 3 || got["dead"] != 0 {
		t.Errorf("stdout is %s", stdout.String())
	}
	for line := range strings.Lines(stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("log line is no JSON: %s", line)
		}
	}
}
