package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/observe/health"
)

func TestMonitorAddress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ listen, allow, want, refused string }{
		{listen: "", want: ""},
		{listen: "127.0.0.1:9464", want: "127.0.0.1:9464"},
		{listen: "127.8.0.1:0", want: "127.8.0.1:0"},
		{listen: "[::1]:9464", want: "[::1]:9464"},
		{listen: "localhost:9464", want: "localhost:9464"},
		{listen: ":9464", refused: "other machines can reach"},
		{listen: "0.0.0.0:9464", refused: "other machines can reach"},
		{listen: "[::]:9464", refused: "metrics.allow_public"},
		{listen: "10.0.0.1:9464", refused: "other machines can reach"},
		{listen: "localhost.example.com:9464", refused: "other machines can reach"},
		{listen: "9464", refused: "want host:port"},
		{listen: "9464", allow: "true", refused: "want host:port"},
		{listen: ":9464", allow: "true", want: ":9464"},
	} {
		t.Run(tt.listen+tt.allow, func(t *testing.T) {
			t.Parallel()
			env := []string{"WAYBILL_METRICS_LISTEN=" + tt.listen}
			if tt.allow != "" {
				env = append(env, "WAYBILL_METRICS_ALLOW_PUBLIC="+tt.allow)
			}
			cfg, err := config.Load(nil, env, "")
			if err != nil {
				t.Fatal(err)
			}
			got, err := monitorAddress(cfg)
			if tt.refused == "" && (err != nil || got != tt.want) || tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)) {
				t.Errorf("monitorAddress() = %q, %v; want %q, refused because %q", got, err, tt.want, tt.refused)
			}
		})
	}
}

// TestRelay_Monitor: metrics of the store, the relay and what it did, and both probes.
func TestRelay_Monitor(t *testing.T) {
	t.Parallel()
	cfg := opener.StoreConfig{URL: postgresURL(), Schema: "cli-monitor-" + waybill.NewID()[24:]}
	fillStore(t, cfg)
	t.Cleanup(func() { dropSchema(t, cfg) })
	stream := newStream(t)
	ctx, cancel := context.WithCancel(t.Context())
	logs, stderr := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"relay", "--log-format", "json", "--store", cfg.URL, "--schema", cfg.Schema, "--metrics-listen", "127.0.0.1:0",
			"--broker", natsURL(), "--nats-stream", stream, "--nats-subject-prefix", stream + "."}, nil, io.Discard, stderr)
		_ = stderr.Close() // never fails
	}()
	address := servedOn(t, logs)
	published(t, cfg)
	for _, want := range []string{
		`waybill_published_total{destination="",`, "waybill_relay_running 1", `waybill_store_read_age_seconds{what="backlog"}`,
		"waybill_database_clock_offset_seconds ", "waybill_database_dead_rows ", "waybill_database_archive_days 9",
		`waybill_database_oldest_transaction_age_seconds{enqueued="true"} `, `waybill_database_held_transactions{holder="replication slot"} `, `waybill_relay_destination_paused{destination=""} 0`, "go_goroutines ",
	} {
		waitFor(t, want, func() bool {
			status, text := get(t, address, "/metrics")
			return status == http.StatusOK && strings.Contains(text, want)
		})
	}
	for _, probe := range []string{"/health/ready", "/health/live"} {
		var report health.Report
		status, text := get(t, address, probe)
		if err := json.Unmarshal([]byte(text), &report); err != nil || status != http.StatusOK || report.Status != "ok" {
			t.Errorf("%s: %d, %s (%v)", probe, status, text, err)
		}
	}
	cancel()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// servedOn returns the address that the log names, and reads on, so that nobody waits.
func servedOn(t *testing.T, logs io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		var record struct{ Msg, Address string }
		if err := json.Unmarshal(lines.Bytes(), &record); err == nil && record.Msg == "metrics and health are served" {
			go func() { _, _ = io.Copy(io.Discard, logs) }() // until the program ends
			return record.Address
		}
	}
	t.Fatal("the program ended and served nothing")
	return ""
}

func get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// testPatience ends a test that hangs: each wait ends as soon as its condition holds.
const testPatience = 5 * time.Minute

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(testPatience)
	for !done() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("%s: not within %v", what, testPatience)
		}
	}
}
