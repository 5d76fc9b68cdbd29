package inboxhttp

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-go/waybill/inbox/lease"
)

// openDocument is what the tests read of openapi.json.
type openDocument struct {
	Paths map[string]map[string]struct {
		RequestBody *struct{ Content map[string]media }
		Responses   map[string]struct {
			Ref     string `json:"$ref"`
			Content map[string]media
		}
	}
	Components struct {
		Schemas map[string]struct {
			Required   []string
			Properties map[string]property
		}
		Responses map[string]struct{ Content map[string]media }
	}
}

type media struct {
	Schema struct {
		Ref string `json:"$ref"`
	}
}

type property struct {
	Type                 string
	Enum                 []string
	MinLength, MaxLength int
	Maximum              float64
	Items                struct {
		Ref string `json:"$ref"`
	}
}

// documented are the types of bodies by the names of their schemas.
var documented = map[string]any{
	"TryBegin": beginBody{}, "TryBeginAnswer": leaseAnswer{}, "Renew": renewBody{}, "RenewAnswer": leaseAnswer{},
	"MarkProcessed": markBody{}, "Release": releaseBody{}, "EndAnswer": statusAnswer{}, "MarkAnswer": statusAnswer{}, "Record": recordAnswer{}, "Problem": problem{},
	"TryBeginBatch": batchBody[beginBody]{}, "TryBeginBatchAnswer": batchBody[leaseAnswer]{},
	"MarkProcessedBatch": batchBody[markBody]{}, "MarkProcessedBatchAnswer": batchBody[statusAnswer]{},
	"Health": struct {
		Status string `json:"status"`
	}{},
}

// ofTryBegin are the fields of a leaseAnswer that renew never answers.
var ofTryBegin = []string{"retryAfterMs", "conflict"}

func readDocument(t *testing.T) (d openDocument) {
	t.Helper()
	r := send(newServer(t, &stub{}, Config{}), "GET", "/v1/openapi.json", "")
	if err := json.Unmarshal([]byte(bodyOf(t, r)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestOpenAPI_Paths: every path and method of the document is served, and no other.
func TestOpenAPI_Paths(t *testing.T) {
	t.Parallel()
	want := map[string]string{inboxPath + "{key}": "get"}
	for path := range posts {
		want[inboxPath+path] = "post"
	}
	for path := range pages {
		want[path] = "get"
	}
	got := make(map[string]string)
	for path, methods := range readDocument(t).Paths {
		got[path] = strings.Join(slices.Sorted(maps.Keys(methods)), " ")
	}
	if !maps.Equal(got, want) {
		t.Errorf("documented is %v\nserved is %v", got, want)
	}
}

// TestOpenAPI_Fields: the fields of bodies and answers are those of the document, of the same
// types, and those that are always there are required.
func TestOpenAPI_Fields(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	for name := range d.Components.Schemas {
		if _, ok := documented[name]; !ok {
			t.Errorf("the schema %s is of no type", name)
		}
	}
	for name, value := range documented {
		schema, ok := d.Components.Schemas[name]
		if !ok {
			t.Errorf("the schema %s is missing", name)
			continue
		}
		fields, always := fieldsOf(reflect.TypeOf(value))
		for field, kind := range fields {
			if p, ok := schema.Properties[field]; !ok && !(name == "RenewAnswer" && slices.Contains(ofTryBegin, field)) || ok && p.Type != kind {
				t.Errorf("%s.%s is documented as %q, want %q", name, field, p.Type, kind)
			}
		}
		for field := range schema.Properties {
			if _, ok := fields[field]; !ok {
				t.Errorf("%s.%s is documented, and no field", name, field)
			}
		}
		slices.Sort(schema.Required)
		if !slices.Equal(schema.Required, always) {
			t.Errorf("of %s are required %v, want %v", name, schema.Required, always)
		}
	}
}

// fieldsOf returns the types of a body's fields as JSON has them, and which are always there.
func fieldsOf(t reflect.Type) (fields map[string]string, always []string) {
	fields = make(map[string]string)
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		kind := f.Type.Kind()
		switch {
		case kind == reflect.Int || kind == reflect.Int64:
			fields[name] = "integer"
		case kind == reflect.Float64:
			fields[name] = "number"
		case kind == reflect.Bool:
			fields[name] = "boolean"
		case kind == reflect.Slice:
			fields[name] = "array"
		default: // times are strings
			fields[name] = "string"
		}
		if options != "omitempty" {
			always = append(always, name)
		}
	}
	slices.Sort(always)
	return fields, always
}

// TestOpenAPI_Statuses: the statuses of the document are those that the client knows, and they
// are those that the contract of the store names.
func TestOpenAPI_Statuses(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	for name, want := range map[string][]lease.Status{
		"TryBeginAnswer": beginStatuses, "RenewAnswer": renewStatuses, "EndAnswer": endStatuses, "MarkAnswer": {lease.Processed}, "Record": recordStatuses, "Health": {"ok"},
	} {
		var got []lease.Status
		for _, status := range d.Components.Schemas[name].Properties["status"].Enum {
			got = append(got, lease.Status(status))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s may be %v, want %v", name, got, want)
		}
	}
	for path, op := range posts { // each is answered as the document says
		schema := schemaOf(d.Paths[inboxPath+path]["post"].Responses["200"].Content["application/json"])
		if item := d.Components.Schemas[schema].Properties["items"].Items.Ref; item != "" {
			schema = nameOf(item)
		}
		for _, status := range d.Components.Schemas[schema].Properties["status"].Enum {
			s := &stub{answer: lease.Answer{Status: lease.Status(status)}, status: lease.Status(status)}
			body := `{"key":"k","leaseId":"l"}`
			if strings.HasSuffix(path, "batch") {
				body = `{"items":[` + body + `]}`
			}
			if text := bodyOf(t, send(newServer(t, s, Config{}), "POST", inboxPath+path, body)); !strings.Contains(text, `"status":"`+status+`"`) {
				t.Errorf("%s is answered with %s, want the status %s", op.name, text, status)
			}
		}
	}
}

// TestOpenAPI_Limits: the limits of the document are those of package inbox.
func TestOpenAPI_Limits(t *testing.T) {
	t.Parallel()
	schemas := readDocument(t).Components.Schemas
	begin := schemas["TryBegin"].Properties
	for field, want := range map[string][2]int{
		"key": {1, lease.MaxKeyLen}, "owner": {0, lease.MaxOwnerLen}, "payloadHash": {0, lease.MaxPayloadHash},
		"requestId": {lease.MinRequestIDLen, lease.MaxRequestIDLen},
	} {
		if got := [2]int{begin[field].MinLength, begin[field].MaxLength}; got != want {
			t.Errorf("%s is documented with %v bytes, want %v", field, got, want)
		}
	}
	if got, want := schemas["Release"].Properties["waitSeconds"].Maximum, lease.MaxTTL.Seconds(); got != want {
		t.Errorf("waitSeconds is documented up to %v, want %v", got, want)
	}
}

// TestOpenAPI_Bodies: each operation takes and gives what the document says, and refuses as it
// says.
func TestOpenAPI_Bodies(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	want := map[string][2]string{
		"try-begin": {"TryBegin", "TryBeginAnswer"}, "renew": {"Renew", "RenewAnswer"}, "mark-processed": {"MarkProcessed", "MarkAnswer"},
		"release": {"Release", "EndAnswer"}, "try-begin/batch": {"TryBeginBatch", "TryBeginBatchAnswer"},
		"mark-processed/batch": {"MarkProcessedBatch", "MarkProcessedBatchAnswer"},
	}
	for path := range posts {
		op := d.Paths[inboxPath+path]["post"]
		got := [2]string{schemaOf(op.RequestBody.Content["application/json"]), schemaOf(op.Responses["200"].Content["application/json"])}
		if got != want[path] {
			t.Errorf("%s has %v, want %v", path, got, want[path])
		}
		codes, want := slices.Sorted(maps.Keys(op.Responses)), []string{"200", "400", "401", "403", "413", "415", "429", "500", "503"}
		if path == "mark-processed" {
			want = slices.Insert(want, 4, "404", "409")
		}
		if !slices.Equal(codes, want) {
			t.Errorf("%s may be answered with %v", path, codes)
		}
		for code, r := range op.Responses {
			if code != "200" && schemaOf(d.Components.Responses[nameOf(r.Ref)].Content["application/problem+json"]) != "Problem" {
				t.Errorf("%s with code %s is no problem", path, code)
			}
		}
	}
}

func schemaOf(m media) string { return nameOf(m.Schema.Ref) }

func nameOf(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }
