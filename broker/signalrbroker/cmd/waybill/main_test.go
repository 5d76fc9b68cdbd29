package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/philippseith/signalr"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/broker/signalrbroker"
	"github.com/waybill-go/waybill/contract"
)

const tokens = `tokens:
  - {name: ann, token: token-of-ann-0123456789, user: ann, topics: [orders]}
  - {name: bob, token: token-of-bob-0123456789, user: bob, topics: [orders]}
`

// said is what the program has written to its log.
func said(t *testing.T, log *os.File) string {
	t.Helper()
	text, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// receiver is a client; the library calls its methods.
type receiver struct {
	signalr.Receiver
	payloads chan string
}

// Connected is called first. Without it the library would answer with an error, to a call that has
// no id, which the server takes for the end.
func (*receiver) Connected(_, _ string) {}

// OrderCreated is called by messages of this type.
func (r *receiver) OrderCreated(payload json.RawMessage, _ signalrbroker.Meta) {
	r.payloads <- string(payload)
}

func connect(t *testing.T, url, name string) (*receiver, error) {
	t.Helper()
	header := http.Header{"Authorization": []string{"Bearer token-of-" + name + "-0123456789"}}
	conn, err := signalr.NewHTTPConnection(t.Context(), url, signalr.WithHTTPHeaders(func() http.Header { return header.Clone() }))
	if err != nil {
		return nil, err
	}
	r := &receiver{payloads: make(chan string, 1000)}
	client, err := signalr.NewClient(t.Context(), signalr.WithConnection(conn), signalr.WithReceiver(r), signalr.Logger(nothing{}, false))
	if err != nil {
		t.Fatal(err)
	}
	client.Start()
	t.Cleanup(client.Stop)
	return r, <-client.WaitForState(t.Context(), signalr.ClientConnected)
}

// nothing is a log of the library that is thrown away.
type nothing struct{}

func (nothing) Log(...any) error { return nil }

// patience ends a test that hangs: each wait ends as soon as its condition holds.
const patience = 5 * time.Minute

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func natsURL() string {
	if u := os.Getenv("NATS_URL"); u != "" {
		return u
	}
	return "nats://127.0.0.1:4222"
}

// openStream makes a stream that only this test knows.
func openStream(t *testing.T) (*natsbroker.Broker, string) {
	t.Helper()
	name := "signalr-" + waybill.NewID()[24:]
	b, err := natsbroker.Open(t.Context(), natsbroker.Config{URL: natsURL(), Stream: name, SubjectPrefix: name + "."})
	if err != nil {
		t.Fatalf("NATS does not answer (%v); start it with: make services", err)
	}
	t.Cleanup(func() {
		_ = b.Close()
		conn, err := nats.Connect(natsURL())
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		js, err := conn.JetStream()
		if err == nil {
			err = js.DeleteStream(name)
		}
		if err != nil {
			t.Errorf("delete the stream: %v", err)
		}
	})
	return b, name
}

func publish(t *testing.T, b *natsbroker.Broker, user, payload string) {
	t.Helper()
	m := &waybill.Message{
		Source: "shop", Topic: "orders", Type: "OrderCreated", Key: "k", Payload: []byte(payload),
		Headers: map[string]string{"push-users": user},
	}
	m.Complete()
	if err := b.Publisher().Send(t.Context(), []contract.Outgoing{{Message: m}})()[0]; err != nil {
		t.Fatal(err)
	}
}

var runningURL = regexp.MustCompile(`push is running.* url=(\S+)`)

// The program pushes what it consumes to SignalR clients, to each what its token grants, refuses
// those without one, and shuts down gracefully.
func TestPush_SignalR(t *testing.T) {
	t.Parallel()
	b, stream := openStream(t)
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(file, []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"push", "--broker", natsURL(), "--nats-stream", stream, "--nats-subject-prefix", stream + ".",
			"--topics", "orders", "--group", "push-1", "--to", "signalr://127.0.0.1:0/push", "--tokens-file", file}, io.Discard, log)
	}()
	url := ""
	waitFor(t, "the program runs", func() bool {
		if found := runningURL.FindStringSubmatch(said(t, log)); found != nil {
			url = found[1]
		}
		return url != "" || len(ended) > 0
	})
	if url == "" {
		t.Fatalf("it has ended with %d: %s", <-ended, said(t, log))
	}

	if _, err := connect(t, url, "eve"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a stranger was answered %v, want 401", err)
	}
	ann, err := connect(t, url, "ann")
	if err != nil {
		t.Fatal(err)
	}
	bob, err := connect(t, url, "bob")
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "ann is pushed something", func() bool { // a new group begins with what comes after
		publish(t, b, "ann", `"for ann"`)
		return len(ann.payloads) > 0
	})
	publish(t, b, "bob", `"for bob"`)
	if got := <-bob.payloads; got != `"for bob"` {
		t.Errorf("bob was pushed %s", got)
	}

	stop()
	if code := <-ended; code != 0 || strings.Contains(said(t, log), "token-of-") {
		t.Errorf("exit code %d: %s", code, said(t, log))
	}
}
