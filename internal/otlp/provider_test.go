package otlp

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func contextWith(t *testing.T, timeout time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), timeout)
}

// received is what a collector was sent.
type received struct {
	path, key, contentType, encoding string
	request                          request
}

// serveCollector notes what it is sent.
func serveCollector(t *testing.T, start func(http.Handler) *httptest.Server) (*httptest.Server, chan received) {
	t.Helper()
	got := make(chan received, 10)
	s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			var err error
			if body, err = gzip.NewReader(r.Body); err != nil {
				t.Error(err)
				return
			}
		}
		one := received{path: r.URL.Path, key: r.Header.Get("X-Api-Key"), contentType: r.Header.Get("Content-Type"), encoding: r.Header.Get("Content-Encoding")}
		decoder := json.NewDecoder(body)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&one.request); err != nil {
			t.Error(err)
		}
		got <- one
	}))
	t.Cleanup(s.Close)
	return s, got
}

func TestStart(t *testing.T) {
	t.Parallel()
	s, got := serveCollector(t, httptest.NewTLSServer)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	provider, stop, err := Start(env("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL+"/base/", "OTEL_EXPORTER_OTLP_CERTIFICATE", authority,
		"OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=a%20b,", "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip",
		"OTEL_RESOURCE_ATTRIBUTES", "service.name=attribute, deployment.environment=prod%2C1", "OTEL_SERVICE_NAME", "shop-relay"), "waybill-relay", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, span := provider.Tracer("scope").Start(t.Context(), "send orders")
	span.End()
	stop()
	one := <-got // stop sends what is left
	if one.path != "/base/v1/traces" || one.key != "a b" || one.contentType != "application/json" || one.encoding != "gzip" {
		t.Errorf("the collector was sent %+v", one)
	}
	of := make(map[string]any)
	for _, kv := range one.request.ResourceSpans[0].Resource.Attributes {
		of[kv.Key] = kv.Value["stringValue"]
	}
	if of["service.name"] != "shop-relay" || of["deployment.environment"] != "prod,1" || of["telemetry.sdk.language"] != "go" {
		t.Errorf("the resource is %v", of)
	}
	if spans := one.request.ResourceSpans[0].ScopeSpans[0].Spans; len(spans) != 1 || spans[0].Name != "send orders" {
		t.Errorf("the spans are %+v", spans)
	}
}

// Secrets in headers go to the collector that is named, not to where that leads.
func TestStart_NoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere, got := serveCollector(t, httptest.NewServer)
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(s.Close)
	provider, stop, err := Start(env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", s.URL), "relay", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, span := provider.Tracer("scope").Start(t.Context(), "send orders")
	span.End()
	stop()
	if len(got) > 0 {
		t.Errorf("%+v was sent elsewhere", <-got)
	}
}

// Without being asked for nothing is exported, nor if something else is asked for.
func TestStart_Off(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, getenv := range map[string]func(string) string{
		"nothing":  env(),
		"none":     env("OTEL_TRACES_EXPORTER", "none", endpoint, "http://collector:4318"),
		"disabled": env("OTEL_SDK_DISABLED", "TRUE", endpoint, "http://collector:4318"),
		"metrics":  env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://collector:4318"),
	} {
		provider, stop, err := Start(getenv, "relay", slog.New(slog.DiscardHandler))
		if provider != nil || err != nil {
			t.Errorf("%s: Start() = %v, %v", name, provider, err)
		}
		stop()
	}
}

func TestStart_Refuses(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER":                  "zipkin",
		"OTEL_EXPORTER_OTLP_PROTOCOL":           "grpc",
		"OTEL_EXPORTER_OTLP_ENDPOINT":           "collector:s3cret",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT":    "http://:4318/s3cret",
		"OTEL_EXPORTER_OTLP_HEADERS":            "s3cret",
		"OTEL_EXPORTER_OTLP_TIMEOUT":            "0",
		"OTEL_EXPORTER_OTLP_COMPRESSION":        "zstd",
		"OTEL_EXPORTER_OTLP_CERTIFICATE":        empty,
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": empty,
		"OTEL_RESOURCE_ATTRIBUTES":              "a=%zz",
	} {
		getenv := env(name, value, "OTEL_TRACES_EXPORTER", "otlp")
		if _, _, err := Start(getenv, "relay", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Start() with %s=%s: %v", name, value, err)
		}
	}
}

func TestReadEndpoint(t *testing.T) {
	t.Parallel()
	const all, traces = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	tests := []struct {
		env  []string
		want string
	}{
		{nil, "http://localhost:4318/v1/traces"},
		{[]string{all, "http://c:1"}, "http://c:1/v1/traces"},
		{[]string{all, "http://c:1/base/?q=1"}, "http://c:1/base/v1/traces?q=1"},
		{[]string{traces, "http://c:1"}, "http://c:1"},
		{[]string{traces, "https://c/own", all, "http://other"}, "https://c/own"},
	}
	for _, tt := range tests {
		if got, err := readEndpoint(env(tt.env...)); err != nil || got.String() != tt.want {
			t.Errorf("readEndpoint(%v) = %v, %v, want %s", tt.env, got, err, tt.want)
		}
	}
}
