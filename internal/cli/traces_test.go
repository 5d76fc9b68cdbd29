package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

// collector notes the spans that it is sent, each as its service, name, system and trace.
type collector struct {
	mu    sync.Mutex
	spans []string
}

// startCollector returns a collector of spans, and the environment that leads to it.
func startCollector(t *testing.T) (c *collector, env []string) {
	t.Helper()
	type attributes []struct {
		Key   string
		Value struct{ StringValue string }
	}
	valueOf := func(list attributes, key string) string {
		for _, a := range list {
			if a.Key == key {
				return a.Value.StringValue
			}
		}
		return ""
	}
	c = &collector{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			ResourceSpans []struct {
				Resource   struct{ Attributes attributes }
				ScopeSpans []struct {
					Spans []struct {
						Name, TraceID string
						Attributes    attributes
					}
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, resource := range body.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					c.spans = append(c.spans, strings.Join([]string{
						valueOf(resource.Resource.Attributes, "service.name"), s.Name, valueOf(s.Attributes, "messaging.system"), s.TraceID,
					}, " "))
				}
			}
		}
	}))
	t.Cleanup(s.Close)
	return c, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + s.URL}
}

// received returns the spans so far, without those that are there twice.
func (c *collector) received() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := slices.Clone(c.spans)
	slices.Sort(spans)
	return slices.Compact(spans)
}

const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"

// A relay exports its spans to the collector that the environment names, each in its message's trace.
func TestTraces_Relay(t *testing.T) {
	t.Parallel()
	c, env := startCollector(t)
	cfg := opener.StoreConfig{URL: postgresURL(), Schema: "cli-traces-" + waybill.NewID()[24:]}
	fillStore(t, cfg)
	t.Cleanup(func() { dropSchema(t, cfg) })
	stream := newStream(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"relay", "--store", cfg.URL, "--schema", cfg.Schema,
			"--broker", natsURL(), "--nats-stream", stream, "--nats-subject-prefix", stream + "."}, env, io.Discard, io.Discard)
	}()
	published(t, cfg)
	cancel()
	if code := <-done; code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	spans := c.received() // the relay has sent what was left
	if len(spans) != 3 || !strings.HasPrefix(spans[0], "waybill-relay send ") || !strings.Contains(spans[0], " nats ") {
		t.Errorf("the spans are %q", spans)
	}
}

// The inbox service answers within the trace of who asks.
func TestTraces_Inbox(t *testing.T) {
	t.Parallel()
	c, env := startCollector(t)
	ctx, stop := context.WithCancel(t.Context())
	log, ended := &lockedBuffer{}, make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"inbox", "--listen", "127.0.0.1:0", "--store", "memory:"}, env, io.Discard, log)
	}()
	var url []string
	waitFor(t, "the inbox service runs", func() bool {
		url = inboxRunning.FindStringSubmatch(log.String())
		return url != nil || len(ended) > 0
	})
	if url == nil {
		t.Fatalf("it has ended: %s", log.String())
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url[1]+"v1/inbox/k", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	stop()
	<-ended
	if spans := c.received(); len(spans) != 1 || !strings.HasPrefix(spans[0], "waybill-inbox inbox ") || !strings.HasSuffix(spans[0], " "+traceID) {
		t.Errorf("the spans are %q", spans)
	}
}

// Push exports a span for what it receives.
func TestTraces_Push(t *testing.T) {
	t.Parallel()
	c, env := startCollector(t)
	p := startPush(t, env, "--to", "sse://127.0.0.1:0/events", "--tokens-file", writeTokens(t, tokensOfPush))
	p.receives()
	p.end()
	if spans := c.received(); len(spans) == 0 || !strings.HasPrefix(spans[0], "waybill-push process orders nats ") {
		t.Errorf("the spans are %q", spans)
	}
}

// An exporter that the environment asks for in vain keeps nothing from going on.
func TestTraces_NotSpoken(t *testing.T) {
	t.Parallel()
	_, env := startCollector(t)
	p := startPush(t, append(env, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"), "--to", "sse://127.0.0.1:0/events", "--tokens-file", writeTokens(t, tokensOfPush))
	p.receives()
	if !strings.Contains(p.log.String(), "OTEL_EXPORTER_OTLP_PROTOCOL") {
		t.Errorf("the log does not tell why: %s", p.log.String())
	}
}

func TestSystemOf(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{"amqp://h": "rabbitmq", "kafkas://h": "kafka", "servicebus://h": "servicebus", "nats://h": "nats", "": ""} {
		if got := systemOf(url); got != want {
			t.Errorf("systemOf(%q) = %q, want %q", url, got, want)
		}
	}
}
