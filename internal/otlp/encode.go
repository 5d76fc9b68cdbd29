package otlp

import (
	"math"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// The types below are ExportTraceServiceRequest of OTLP 1 in its JSON mapping: ids are hexadecimal, enums are
// numbers, and integers of 64 bits are strings.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   attributes   `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
		SchemaURL  string       `json:"schemaUrl,omitempty"`
	}
	attributes struct {
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	scopeSpans struct {
		Scope     scope  `json:"scope"`
		Spans     []span `json:"spans"`
		SchemaURL string `json:"schemaUrl,omitempty"`
	}
	scope struct {
		Name       string     `json:"name"`
		Version    string     `json:"version,omitempty"`
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	span struct {
		TraceID           string     `json:"traceId"`
		SpanID            string     `json:"spanId"`
		TraceState        string     `json:"traceState,omitempty"`
		ParentSpanID      string     `json:"parentSpanId,omitempty"`
		Flags             uint32     `json:"flags"`
		Name              string     `json:"name"`
		Kind              int        `json:"kind"`
		Start             string     `json:"startTimeUnixNano"`
		End               string     `json:"endTimeUnixNano"`
		Attributes        []keyValue `json:"attributes,omitempty"`
		DroppedAttributes int        `json:"droppedAttributesCount,omitempty"`
		Events            []event    `json:"events,omitempty"`
		DroppedEvents     int        `json:"droppedEventsCount,omitempty"`
		Links             []link     `json:"links,omitempty"`
		DroppedLinks      int        `json:"droppedLinksCount,omitempty"`
		Status            status     `json:"status"`
	}
	event struct {
		Time              string     `json:"timeUnixNano"`
		Name              string     `json:"name"`
		Attributes        []keyValue `json:"attributes,omitempty"`
		DroppedAttributes int        `json:"droppedAttributesCount,omitempty"`
	}
	link struct {
		TraceID           string     `json:"traceId"`
		SpanID            string     `json:"spanId"`
		TraceState        string     `json:"traceState,omitempty"`
		Flags             uint32     `json:"flags"`
		Attributes        []keyValue `json:"attributes,omitempty"`
		DroppedAttributes int        `json:"droppedAttributesCount,omitempty"`
	}
	status struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	keyValue struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"` // has one member, whose name is the type
	}
)

// newRequest returns the request that exports spans of one provider, which share a resource.
func newRequest(spans []trace.ReadOnlySpan) request {
	of := spans[0].Resource()
	all := resourceSpans{Resource: attributes{encodeAttributes(of.Attributes())}, SchemaURL: of.SchemaURL()}
	at := make(map[instrumentation.Scope]int)
	for _, s := range spans {
		by := s.InstrumentationScope()
		i, known := at[by]
		if !known {
			i = len(all.ScopeSpans)
			at[by] = i
			all.ScopeSpans = append(all.ScopeSpans, scopeSpans{
				Scope: scope{by.Name, by.Version, encodeAttributes(by.Attributes.ToSlice())}, SchemaURL: by.SchemaURL,
			})
		}
		all.ScopeSpans[i].Spans = append(all.ScopeSpans[i].Spans, encodeSpan(s))
	}
	return request{[]resourceSpans{all}}
}

func encodeSpan(s trace.ReadOnlySpan) span {
	id, parent := s.SpanContext(), s.Parent()
	encoded := span{
		TraceID: id.TraceID().String(), SpanID: id.SpanID().String(), TraceState: id.TraceState().String(),
		Flags: flags(id, parent), Name: s.Name(), Kind: int(s.SpanKind()), // the numbers are the same
		Start: nanoseconds(s.StartTime()), End: nanoseconds(s.EndTime()),
		Attributes: encodeAttributes(s.Attributes()), DroppedAttributes: s.DroppedAttributes(),
		DroppedEvents: s.DroppedEvents(), DroppedLinks: s.DroppedLinks(),
		Status: status{statusCodes[s.Status().Code], s.Status().Description},
	}
	if parent.HasSpanID() {
		encoded.ParentSpanID = parent.SpanID().String()
	}
	for _, e := range s.Events() {
		encoded.Events = append(encoded.Events, event{nanoseconds(e.Time), e.Name, encodeAttributes(e.Attributes), e.DroppedAttributeCount})
	}
	for _, l := range s.Links() {
		to := l.SpanContext
		encoded.Links = append(encoded.Links, link{
			TraceID: to.TraceID().String(), SpanID: to.SpanID().String(), TraceState: to.TraceState().String(), Flags: flags(to, to),
			Attributes: encodeAttributes(l.Attributes), DroppedAttributes: l.DroppedAttributeCount,
		})
	}
	return encoded
}

var statusCodes = map[codes.Code]int{codes.Unset: 0, codes.Ok: 1, codes.Error: 2}

// flags returns the trace flags of a context, with the flag whether origin is remote.
func flags(of, origin api.SpanContext) uint32 {
	const known, remote = 0x100, 0x200
	f := uint32(of.TraceFlags()) | known
	if origin.IsRemote() {
		f |= remote
	}
	return f
}

func nanoseconds(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func encodeAttributes(list []attribute.KeyValue) []keyValue {
	var encoded []keyValue
	for _, kv := range list {
		encoded = append(encoded, keyValue{string(kv.Key), encodeValue(kv.Value)})
	}
	return encoded
}

func encodeValue(v attribute.Value) map[string]any {
	switch v.Type() {
	case attribute.BOOL:
		return boolValue(v.AsBool())
	case attribute.INT64:
		return intValue(v.AsInt64())
	case attribute.FLOAT64:
		return doubleValue(v.AsFloat64())
	case attribute.BOOLSLICE:
		return arrayValue(v.AsBoolSlice(), boolValue)
	case attribute.INT64SLICE:
		return arrayValue(v.AsInt64Slice(), intValue)
	case attribute.FLOAT64SLICE:
		return arrayValue(v.AsFloat64Slice(), doubleValue)
	case attribute.STRINGSLICE:
		return arrayValue(v.AsStringSlice(), stringValue)
	}
	return stringValue(v.Emit())
}

func boolValue(b bool) map[string]any     { return map[string]any{"boolValue": b} }
func intValue(n int64) map[string]any     { return map[string]any{"intValue": strconv.FormatInt(n, 10)} }
func stringValue(s string) map[string]any { return map[string]any{"stringValue": s} }

// doubleValue writes values that JSON cannot represent as numbers as strings.
func doubleValue(f float64) map[string]any {
	var value any = f
	switch {
	case math.IsNaN(f):
		value = "NaN"
	case math.IsInf(f, 1):
		value = "Infinity"
	case math.IsInf(f, -1):
		value = "-Infinity"
	}
	return map[string]any{"doubleValue": value}
}

func arrayValue[T any](list []T, encode func(T) map[string]any) map[string]any {
	values := make([]map[string]any, len(list))
	for i, v := range list {
		values[i] = encode(v)
	}
	return map[string]any{"arrayValue": map[string]any{"values": values}}
}
