package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/cloudevents"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/store/memstore"
)

// languages are the extensions of the programs, and what runs them.
var languages = map[string]string{".py": "python3", ".mjs": "node"}

// otherLanguage runs a program in another language, which may import the examples, and returns what it says.
func otherLanguage(t *testing.T, stdin []byte, env []string, name string, args ...string) string {
	t.Helper()
	language := languages[filepath.Ext(name)]
	if _, err := exec.LookPath(language); err != nil {
		t.Fatalf("%v; install it with: make services", err)
	}
	cmd := exec.CommandContext(t.Context(), language, append([]string{name}, args...)...)
	cmd.Env = append(os.Environ(), append(env, "PYTHONPATH=../../examples/inbox-python", "PYTHONDONTWRITEBYTECODE=1")...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// TestInboxServiceLanguages runs the examples in other languages against the service.
func TestInboxServiceLanguages(t *testing.T) {
	t.Parallel()
	const want = `released: the card is declined
charged, with token 2
Processed
Processed
Acquired
Released
`
	for _, name := range []string{"inbox-python/process_once.py", "inbox-node/process_once.mjs"} {
		t.Run(languages[filepath.Ext(name)], func(t *testing.T) {
			t.Parallel()
			const token = "s3cr3t-of-the-example"
			tokens := filepath.Join(t.TempDir(), "tokens.json")
			if err := os.WriteFile(tokens, []byte(`{"tokens": [{"name": "example", "token": "`+token+`"}]}`), 0o600); err != nil {
				t.Fatal(err)
			}
			p := startInbox(t, "", "--store", "memory:", "--tokens-file", tokens)
			env := []string{"INBOX_URL=" + p.url, "INBOX_TOKEN=" + token}
			if out := otherLanguage(t, nil, env, filepath.Join("../../examples", name)); out != want {
				t.Errorf("it says\n%s\nwant\n%s", out, want)
			}
		})
	}
}

// TestInboxServiceLanguages_Keys: the examples build the keys that [lease.Key] does, which reads
// the same file.
func TestInboxServiceLanguages_Keys(t *testing.T) {
	t.Parallel()
	const file = "../../inbox/lease/testdata/leasekeys.json"
	text, err := os.ReadFile(file)
	var cases []json.RawMessage
	if err != nil || json.Unmarshal(text, &cases) != nil || len(cases) == 0 {
		t.Fatalf("%s has %d keys, %v", file, len(cases), err)
	}
	for extension := range languages {
		if out, want := otherLanguage(t, nil, nil, "testdata/inboxlanguages/keys"+extension, file), fmt.Sprintf("%d keys\n", len(cases)); out != want {
			t.Errorf("%s says %q, want %q", extension, out, want)
		}
	}
}

// TestInboxServiceLanguages_Shared: of a Go consumer, a Python and a Node program of one group, one
// handles a message, whoever gets it first, as the writer made it.
func TestInboxServiceLanguages_Shared(t *testing.T) {
	t.Parallel()
	p := startInbox(t, "", "--store", "memory:")
	b, store, ops := membroker.New(), p.client(t, ""), newOpCounter()
	handled := make(chan string, 10)
	c, err := consumer.NewLeased(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}}, store,
		func(_ context.Context, m *waybill.Message) error { handled <- m.ID; return nil },
		consumer.Leases{Bus: "orders", Letters: consumer.LettersIn(memstore.New())}, quickConsumer(consumer.Config{Observer: ops}))
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), c.Run)
	programs := []string{".go", ".py", ".mjs"}
	for i, first := range programs {
		m := waybill.Message{ID: "id-" + first, IdempotencyKey: "pay:" + first, Tenant: "acme", Source: "shop", Type: "order.placed@v2", Topic: "orders", Payload: []byte("{}")}
		m.Complete()
		event := map[string]string{}
		cloudevents.Each(&m, func(name, value string) { event[name] = value })
		wire, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		for n, extension := range append(slices.Clone(programs[i:]), programs[:i]...) {
			if extension == ".go" {
				before := len(handled) + ops.count(observe.OpDuplicate)
				publish(t, b, m, m.ID)
				eventually(t, "the consumer has met the message", func() bool { return len(handled)+ops.count(observe.OpDuplicate) > before })
				eventually(t, "it is marked", func() bool {
					rec, err := store.ReadLease(t.Context(), lease.KeyOf("orders", "billing", &m).String())
					return err == nil && rec.Status == lease.Processed
				})
				if n > 0 && len(handled) > 0 {
					t.Errorf("the consumer handles again what %s has handled", first)
				}
				continue
			}
			want := "Processed\n"
			if n == 0 {
				want = "handled\nProcessed\n"
			}
			if out := otherLanguage(t, wire, []string{"INBOX_URL=" + p.url}, "testdata/inboxlanguages/consume"+extension); out != want {
				t.Errorf("first is %s, %s says %q, want %q", first, extension, out, want)
			}
		}
		if first == ".go" {
			<-handled
		}
	}
}
