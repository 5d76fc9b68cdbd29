package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParseFile(t *testing.T) {
	t.Parallel()
	const text = `
# everything
store: postgres://db/orders
broker: nats://127.0.0.1
nats.stream: orders
relay:
  batch_size: 50 # fewer
  poll_interval: "1s"
retry: {base_delay: 2s}
log:
`
	got, _, err := parseFile("w.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]value{
		"store":               {raw: "postgres://db/orders", origin: "w.yaml:3"},
		"broker":              {raw: "nats://127.0.0.1", origin: "w.yaml:4"},
		"nats.stream":         {raw: "orders", origin: "w.yaml:5"},
		"relay.batch_size":    {raw: "50", origin: "w.yaml:7"},
		"relay.poll_interval": {raw: "1s", origin: "w.yaml:8"},
		"retry.base_delay":    {raw: "2s", origin: "w.yaml:9"},
	}
	if len(got) != len(want) {
		t.Errorf("parseFile() = %v, want %v", got, want)
	}
	for key, w := range want {
		if got[key] != w {
			t.Errorf("parseFile()[%s] = %v, want %v", key, got[key], w)
		}
	}
}

func TestParseFile_Lists(t *testing.T) {
	t.Parallel()
	_, got, err := parseFile("w.yaml", strings.NewReader(`
routes:
  - {name: events, broker: "nats://n", topics: ["order.*", stock]}
webhooks:
  - name: acme
    url: https://acme.example/hook
    secrets: [a, b]
    topics: [order.placed]
    types: ["order.*"]
    headers: {authorization: "Bearer x"}
    rate: 2.5
    disabled: true
`))
	want := lists{
		routes: []Route{{Name: "events", Broker: "nats://n", Topics: []string{"order.*", "stock"}}},
		webhooks: []Webhook{{
			Name: "acme", URL: "https://acme.example/hook", Secrets: []string{"a", "b"}, Topics: []string{"order.placed"},
			Types: []string{"order.*"}, Headers: map[string]string{"authorization": "Bearer x"}, Rate: 2.5, Disabled: true,
		}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("parseFile() = %+v, %v, want %+v", got, err, want)
	}
}

// TestParseFile_HidesSecrets: an error about a list does not quote what may be a secret.
func TestParseFile_HidesSecrets(t *testing.T) {
	t.Parallel()
	_, _, err := parseFile("w.yaml", strings.NewReader("webhooks:\n  - name: a\n    secrets: whsec_HUSH\n"))
	if err == nil || strings.Contains(err.Error(), "HUSH") || !strings.HasPrefix(err.Error(), "w.yaml:2: an entry of webhooks has a value of the wrong kind") {
		t.Errorf("parseFile() = %v, want an error without the value", err)
	}
}

// TestLoad_Mode: nobody else may change the file, and a file with secrets that others can read is warned of.
func TestLoad_Mode(t *testing.T) {
	t.Parallel()
	const secret, plain = "store: postgres://u:s3cr3t@db/x\n", "store: postgres://u@db/x\n"
	for _, tc := range []struct {
		text          string
		mode          os.FileMode
		wrong, warned bool
	}{
		{secret, 0o600, false, false}, {secret, 0o640, false, false}, {secret, 0o644, false, true}, {secret, 0o666, true, false}, {secret, 0o602, true, false},
		{plain, 0o644, false, false}, {plain, 0o646, true, false},
		{"webhook.secret: whsec_s3cr3t\n", 0o644, false, true},
		{"routes: [{name: a, broker: \"nats://u:s3cr3t@h\", topics: [x]}]\n", 0o644, false, true},
		{"webhooks: [{name: a, url: \"https://a.example\", secrets: [whsec_s3cr3t], topics: [x]}]\n", 0o644, false, true},
	} {
		path := filepath.Join(t.TempDir(), "w.yaml")
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, tc.mode); err != nil {
			t.Fatal(err)
		}
		// What the environment sets instead is still in the file.
		c, err := Load(nil, []string{"WAYBILL_STORE=sqlite:x.db"}, path)
		if (err != nil) != tc.wrong || err != nil && !strings.Contains(err.Error(), "chmod") {
			t.Errorf("Load() of %q with %v = %v", tc.text, tc.mode, err)
		}
		if c == nil {
			continue
		}
		warnings := strings.Join(c.Warnings(), " ")
		if (warnings != "") != tc.warned || strings.Contains(warnings, "s3cr3t") {
			t.Errorf("Load() of %q with %v warns %q", tc.text, tc.mode, warnings)
		}
	}
}

func TestLoad_ListNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"routes: [{name: a}, {name: a}]":               "routes: the name a is that of another entry of routes",
		"routes: [{name: a}]\nwebhooks: [{name: a}]\n": "webhooks: the name a is that of another entry of routes",
		"webhooks: [{url: x}]":                         "webhooks: an entry has no name",
		"webhooks: [{name: broker}]":                   "webhooks: the name broker is that of the broker",
	} {
		path := filepath.Join(t.TempDir(), "w.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(nil, nil, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load() = %v, want %s", err, want)
		}
	}
}

func TestParseFile_Empty(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing yet\n", "---\n", "relay:\n"} {
		if got, _, err := parseFile("w.yaml", strings.NewReader(text)); err != nil || len(got) != 0 {
			t.Errorf("parseFile(%q) = %v, %v, want nothing", text, got, err)
		}
	}
}

func TestParseFile_Refused(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"unknown option", "schema: a\nshema: b\n", "w.yaml:2: there is no option shema"},
		{"unknown option in a section", "relay:\n  batch: 1\n", "w.yaml:2: there is no option relay.batch"},
		{"unknown section", "relays:\n  batch_size: 1\n", "w.yaml:1: there is no option relays"},
		{"set twice", "schema: a\nschema: b\n", "w.yaml:2: schema is set in line 1 already"},
		{"set nested and dotted", "relay:\n  mode: strict\nrelay.mode: strict\n", "w.yaml:3: relay.mode is set in line 2 already"},
		{"section with a value", "relay: 5\n", "w.yaml:1: relay is a section"},
		{"option with options", "schema:\n  name: a\n", "w.yaml:2: schema must be a single value"},
		{"list", "schema: [a]\n", "w.yaml:1: schema must be a single value"},
		{"no value", "schema:\n", "w.yaml:1: schema has no value"},
		{"alias", "source: &s a\nschema: *s\n", "w.yaml:2: schema must be a single value"},
		{"no mapping", "- schema\n", "w.yaml:1: expected a mapping"},
		{"key that is no name", "? [a]\n: b\n", "w.yaml:1: expected the name of an option"},
		{"two documents", "schema: a\n---\nschema: b\n", "w.yaml: has more than one document"},
		{"routes that are no list", "routes: a\n", "w.yaml:1: routes is a list"},
		{"routes twice", "routes: []\nroutes: []\n", "w.yaml:2: routes is set in line 1 already"},
		{"entry that is no mapping", "webhooks:\n  - a\n", "w.yaml:2: an entry of webhooks is no mapping"},
		{"unknown field", "webhooks:\n  - name: a\n    uri: b\n", "w.yaml:3: uri in an entry of webhooks is unknown"},
		{"field twice", "routes:\n  - name: a\n    name: b\n", "w.yaml:3: name in an entry of routes is unknown, or there twice"},
		{"no YAML", "schema: [\n", "w.yaml: yaml: line"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := parseFile("w.yaml", strings.NewReader(tt.text))
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("parseFile() = %v, want %s", err, tt.want)
			}
		})
	}
}

func TestLoad_FileMissing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none.yaml")
	if _, err := Load(nil, nil, path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Load() = %v, want an error that names %s", err, path)
	}
}

// Not parallel: the working directory belongs to the process.
func TestFile(t *testing.T) {
	t.Chdir(t.TempDir())
	env := []string{"A=b", FileEnv + "=env.yaml"}
	if got := File("", nil); got != "" {
		t.Errorf("File() = %q, want none", got)
	}
	if err := os.WriteFile(DefaultFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := File("", nil); got != DefaultFile {
		t.Errorf("File() = %q, want %q", got, DefaultFile)
	}
	if got, want := File("", env), "env.yaml"; got != want {
		t.Errorf("File() = %q, want %q", got, want)
	}
	if got, want := File("flag.yaml", env), "flag.yaml"; got != want {
		t.Errorf("File() = %q, want %q", got, want)
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add("relay:\n  batch_size: 1\n")
	f.Add("broker: a\nnats.stream: b\n")
	f.Add("a: &a [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, _, err := parseFile("w.yaml", strings.NewReader(text))
		if err != nil {
			return
		}
		for key := range got {
			if _, ok := find(func(o Option) bool { return o.Key == key }); !ok {
				t.Errorf("parseFile() found the unknown option %q", key)
			}
		}
	})
}
