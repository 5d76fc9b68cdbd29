package otlp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
)

// contextOf returns a span context that ends with a digit.
func contextOf(t *testing.T, digit string, remote bool) api.SpanContext {
	t.Helper()
	state, err := api.ParseTraceState("vendor=1")
	if err != nil {
		t.Fatal(err)
	}
	traceID, err := api.TraceIDFromHex("5b8efff798038103d269b633813fc60" + digit)
	if err != nil {
		t.Fatal(err)
	}
	spanID, err := api.SpanIDFromHex("eee19b7ec3c1b17" + digit)
	if err != nil {
		t.Fatal(err)
	}
	return api.NewSpanContext(api.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: api.FlagsSampled, TraceState: state, Remote: remote})
}

// full are two spans of two scopes with a value in each field.
func full(t *testing.T) []trace.ReadOnlySpan {
	t.Helper()
	at := time.Unix(1_544_712_660, 5)
	of := resource.NewWithAttributes("https://schema", attribute.String("service.name", "relay"))
	return tracetest.SpanStubs{
		{
			Name: "send orders", SpanContext: contextOf(t, "1", false), Parent: contextOf(t, "2", true), SpanKind: api.SpanKindClient,
			StartTime: at, EndTime: at.Add(time.Second), Resource: of,
			Attributes: []attribute.KeyValue{
				attribute.String("s", "ü\xff"), attribute.Bool("b", true), attribute.Int64("i", math.MaxInt64), attribute.Float64("f", 1.5), attribute.Float64("nan", math.NaN()),
				attribute.StringSlice("ss", []string{"x", "y"}), attribute.BoolSlice("bs", nil), attribute.Int64Slice("is", []int64{-1}), attribute.Float64Slice("fs", []float64{math.Inf(1), math.Inf(-1)}),
			},
			Events:            []trace.Event{{Name: "e", Time: at, Attributes: []attribute.KeyValue{attribute.Int("n", 1)}, DroppedAttributeCount: 1}},
			Links:             []trace.Link{{SpanContext: contextOf(t, "3", true), Attributes: []attribute.KeyValue{attribute.Int("n", 2)}, DroppedAttributeCount: 2}},
			Status:            trace.Status{Code: codes.Error, Description: "unavailable"},
			DroppedAttributes: 3, DroppedEvents: 4, DroppedLinks: 5,
			InstrumentationScope: instrumentation.Scope{Name: "one", Version: "v1", SchemaURL: "https://scope", Attributes: attribute.NewSet(attribute.String("k", "v"))},
		},
		{
			Name: "process", SpanContext: contextOf(t, "4", false), SpanKind: api.SpanKindConsumer, StartTime: at, EndTime: at, Resource: of,
			Status: trace.Status{Code: codes.Ok}, InstrumentationScope: instrumentation.Scope{Name: "two"},
		},
	}.Snapshots()
}

const fullJSON = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"relay"}}]},
"scopeSpans":[{"scope":{"name":"one","version":"v1","attributes":[{"key":"k","value":{"stringValue":"v"}}]},
"spans":[{"traceId":"5b8efff798038103d269b633813fc601","spanId":"eee19b7ec3c1b171","traceState":"vendor=1","parentSpanId":"eee19b7ec3c1b172","flags":769,
"name":"send orders","kind":3,"startTimeUnixNano":"1544712660000000005","endTimeUnixNano":"1544712661000000005",
"attributes":[{"key":"s","value":{"stringValue":"ü\ufffd"}},{"key":"b","value":{"boolValue":true}},{"key":"i","value":{"intValue":"9223372036854775807"}},
{"key":"f","value":{"doubleValue":1.5}},{"key":"nan","value":{"doubleValue":"NaN"}},
{"key":"ss","value":{"arrayValue":{"values":[{"stringValue":"x"},{"stringValue":"y"}]}}},{"key":"bs","value":{"arrayValue":{"values":[]}}},
{"key":"is","value":{"arrayValue":{"values":[{"intValue":"-1"}]}}},{"key":"fs","value":{"arrayValue":{"values":[{"doubleValue":"Infinity"},{"doubleValue":"-Infinity"}]}}}],
"droppedAttributesCount":3,
"events":[{"timeUnixNano":"1544712660000000005","name":"e","attributes":[{"key":"n","value":{"intValue":"1"}}],"droppedAttributesCount":1}],"droppedEventsCount":4,
"links":[{"traceId":"5b8efff798038103d269b633813fc603","spanId":"eee19b7ec3c1b173","traceState":"vendor=1","flags":769,
"attributes":[{"key":"n","value":{"intValue":"2"}}],"droppedAttributesCount":2}],"droppedLinksCount":5,
"status":{"code":2,"message":"unavailable"}}],"schemaUrl":"https://scope"},
{"scope":{"name":"two"},"spans":[{"traceId":"5b8efff798038103d269b633813fc604","spanId":"eee19b7ec3c1b174","traceState":"vendor=1","flags":257,
"name":"process","kind":5,"startTimeUnixNano":"1544712660000000005","endTimeUnixNano":"1544712660000000005","status":{"code":1}}]}],
"schemaUrl":"https://schema"}]}`

func TestNewRequest(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(newRequest(full(t)))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(got), "\ufffd", `\ufffd`) // Go 1.27 writes the character itself
	if want := strings.ReplaceAll(fullJSON, "\n", ""); text != want {
		t.Errorf("newRequest() =\n%s\nwant\n%s", text, want)
	}
}

// roundTripper answers requests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is one answer of a collector, or the error of the connection.
type answer struct {
	code  int
	retry string // Retry-After
	body  string
	err   error
}

// collector gives answers, the last one for ever, and notes when it was asked.
func collector(t *testing.T, s settings, log io.Writer, answers ...answer) (*exporter, *[]time.Duration) {
	t.Helper()
	began, asked := time.Now(), new([]time.Duration)
	e := newExporter(s, slog.New(slog.NewTextHandler(log, nil)))
	e.client.Transport = roundTripper(func(*http.Request) (*http.Response, error) {
		one := answers[min(len(*asked), len(answers)-1)]
		*asked = append(*asked, time.Since(began))
		if one.err != nil {
			return nil, one.err
		}
		return &http.Response{StatusCode: one.code, Header: http.Header{"Retry-After": {one.retry}}, Body: io.NopCloser(strings.NewReader(one.body))}, nil
	})
	return e, asked
}

// env is an environment of these variables.
func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func mustRead(t *testing.T, pairs ...string) settings {
	t.Helper()
	s, err := readSettings(env(pairs...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestExport_Retries(t *testing.T) {
	t.Parallel()
	ok := answer{code: 200}
	tests := []struct {
		name     string
		answers  []answer
		attempts int
		ends     bool // without an error
		after    time.Duration
	}{
		{"accepted", []answer{ok}, 1, true, 0},
		{"busy, with the time to wait", []answer{{code: 429, retry: "7"}, {code: 503, retry: "3"}, ok}, 3, true, 10 * time.Second},
		{"a gateway in between", []answer{{code: 502}, {code: 504}, ok}, 3, true, 0},
		{"no connection", []answer{{err: errors.New("refused")}, ok}, 2, true, 0},
		{"refused", []answer{{code: 400}, ok}, 1, false, 0},
		{"unauthorized", []answer{{code: 401}, ok}, 1, false, 0},
		{"led elsewhere", []answer{{code: 307}, ok}, 1, false, 0},
		{"wants more time than there is", []answer{{code: 503, retry: "31"}, ok}, 1, false, 0},
		{"Retry-After that is none", []answer{{code: 503, retry: "-1"}, {code: 503, retry: "soon"}, ok}, 3, true, 0},
		{"never", []answer{{code: 503}}, 5, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := contextWith(t, 30*time.Second)
				defer cancel()
				e, asked := collector(t, mustRead(t), io.Discard, tt.answers...)
				_, err := e.export(ctx, full(t))
				if tt.name == "never" { // delays are random, at least half of 1, 2, 4, 8, 16 s
					if n := len(*asked); err == nil || n < tt.attempts || n > 6 {
						t.Errorf("export() = %v after %d attempts, want 5 or 6", err, n)
					}
					return
				}
				if (err == nil) != tt.ends || len(*asked) != tt.attempts {
					t.Errorf("export() = %v after %d attempts, want %d, accepted %t", err, len(*asked), tt.attempts, tt.ends)
				}
				if last := (*asked)[len(*asked)-1]; tt.after > 0 && last != tt.after {
					t.Errorf("the last attempt came after %v, want %v", last, tt.after)
				}
			})
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for text, want := range map[string]time.Duration{
			"": 0, "soon": 0, "-1": 0, "7": 7 * time.Second, "99999999999999999999": 0,
			time.Now().Add(time.Minute).UTC().Format(http.TimeFormat):  time.Minute,
			time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat): 0,
			"Fri, 31 Dec 9999 23:59:59 GMT":                            math.MaxInt64,
		} {
			if got := retryAfter(text); got != want {
				t.Errorf("retryAfter(%q) = %v, want %v", text, got, want)
			}
		}
	})
}

// An outage of the collector is logged once, and its end once; neither has secrets.
func TestExportSpans_Logs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := mustRead(t, "OTEL_EXPORTER_OTLP_ENDPOINT", "https://user:s3cret@collector:4318/?key=s3cret", "OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=s3cret")
		e, _ := collector(t, s, &log, answer{err: errors.New("refused")}, answer{code: 401, body: "s3cret"}, answer{code: 401}, answer{code: 200, body: `{"partialSuccess":{"rejectedSpans":"2","errorMessage":"s3cret"}}`}, answer{code: 200})
		for range 4 {
			ctx, cancel := contextWith(t, time.Minute)
			if err := e.ExportSpans(ctx, full(t)); err != nil {
				t.Errorf("ExportSpans() = %v", err)
			}
			cancel()
		}
		text := log.String()
		for what, want := range map[string]int{"traces are not exported": 1, "traces are exported again": 1, "count=2": 1, "collector=collector:4318": 3, "s3cret": 0} {
			if got := strings.Count(text, what); got != want {
				t.Errorf("%q is logged %d times, want %d:\n%s", what, got, want, text)
			}
		}
	})
}

// The error of a connection that quotes the URL is logged without it.
func TestSend_ErrorsWithoutURL(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"http://user:s3cret@127.0.0.1:1/?key=s3cret", "http://s3cret.invalid:1/s3cret"} {
		e := newExporter(mustRead(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint, "OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=s3cret%0d%0a"), slog.New(slog.DiscardHandler))
		if _, err := e.send(t.Context(), nil); err == nil || strings.Contains(strings.ReplaceAll(err.Error(), "s3cret.invalid", ""), "s3cret") {
			t.Errorf("send() to %s = %v", endpoint, err)
		}
	}
}
