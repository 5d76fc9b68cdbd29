package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/cli/opener"
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
	timeout := time.After(testPatience)
	for {
		stats, err := store.OutboxStats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		left := false
		for _, s := range stats {
			left = left || s.Consumer == "" && s.Status != inspect.Published
		}
		if !left {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("not published within %v: %+v", testPatience, stats)
		}
	}
}

// relay publishes what is there, and shuts down gracefully when it is asked to.
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

// TestRelay_Record: what relay --record has written shows the way of a message, without what it holds.
func TestRelay_Record(t *testing.T) {
	t.Parallel()
	cfg := opener.StoreConfig{URL: postgresURL(), Schema: "cli-record-" + waybill.NewID()[24:]}
	fillStore(t, cfg)
	t.Cleanup(func() { dropSchema(t, cfg) })
	stream, file := newStream(t), filepath.Join(t.TempDir(), "relay.rec")
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"relay", "--record", file, "--record-size", "1", "--store", cfg.URL, "--schema", cfg.Schema,
			"--broker", natsURL(), "--nats-stream", stream, "--nats-subject-prefix", stream + "."}, nil, &stdout, &stderr)
	}()
	published(t, cfg)
	cancel()
	if code := <-done; code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	show := func(args ...string) (string, int) {
		t.Helper()
		var out bytes.Buffer
		code := run(t.Context(), append([]string{"relay", "replay", file}, args...), nil, &out, &out)
		return out.String(), code
	}
	for _, tt := range []struct {
		args []string
		want []string // parts, in this order
		not  string
	}{
		{nil, []string{"Replayed ", " steps, ", "; the relay's decisions are the same."}, "order-1"},
		{[]string{"--message", "order-1"}, []string{"order-1 is claimed: position ", "topic orders, key #", "→ send order-1", "order-1 is accepted (batch ", "→ store of order-1", ": published", "its outcome is stored"}, "ann"},
		{[]string{"--topic", "mails"}, []string{"mail-1 is claimed", "mail-1 is accepted"}, "order-1"},
		{[]string{"--from", "1h"}, []string{"the relay begins, with batches of 500, 4 at a time", "messages are claimed", "→ send batch 1 to", "outcomes are stored"}, "order-1"},
		{[]string{"--from", "1h"}, []string{"→ send batch 1 to", "the relay is stopped"}, "order-1"}, // it may learn of both in either order
		{[]string{"--message", "order-9"}, []string{"Nothing in the recording is about that."}, "order-1"},
		{[]string{"--to", "1h", "--topic", "mails"}, []string{"Nothing in the recording is about that."}, "mail-1"},
	} {
		got, code := show(tt.args...)
		rest := got
		for _, part := range tt.want {
			before, after, found := strings.Cut(rest, part)
			if !found {
				t.Errorf("relay replay %q lacks %q after %q:\n%s", tt.args, part, before, got)
			}
			rest = after
		}
		if code != exitOK || strings.Contains(got, tt.not) {
			t.Errorf("relay replay %q ends with %d, and must not show %q:\n%s", tt.args, code, tt.not, got)
		}
	}
	asJSON, _ := show("--json", "--message", "mail-1")
	var got replayedRelay
	if err := json.Unmarshal([]byte(asJSON), &got); err != nil || got.Steps == 0 || len(got.Shown) < 3 {
		t.Errorf("relay replay --json prints %s (%v)", asJSON, err)
	}
	if err := os.Truncate(file, 5000); err != nil {
		t.Fatal(err)
	}
	if got, code := show(); code != exitFailed || !strings.Contains(got, "the recording is cut off") {
		t.Errorf("relay replay of a file that is cut off ends with %d: %s", code, got)
	}
}
