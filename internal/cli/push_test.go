package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/outbox"
)

const tokensOfPush = `tokens:
  - {name: ann, token: token-of-ann-0123456789, user: ann, groups: [admins], topics: [orders, invoices]}
  - {name: bob, sha256: 52334763091e1317dab599b0ae187d3eef5d6a7bd1ad6ecf5f5379ce9f177ddd, user: bob, topics: [orders]}
  - {name: probe, token: token-of-probe-0123456789, user: probe, topics: [orders]}
  - {name: empty, sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855, topics: [orders]}
  - {name: acme, token: token-of-acme-0123456789, tenant: acme, topics: [orders]}
`

// pushed is a stream of NATS, and a program that pushes what is published to it.
type pushed struct {
	*testing.T
	broker     *natsbroker.Broker
	server     string // its URL
	stream     string
	brokerArgs []string
	url        string
	stop       context.CancelFunc
	ended      chan int
	log        lockedBuffer // what the program says
}

var runningURL = regexp.MustCompile(`push is running.* url=(\S+)`)

// startPush pushes the topics orders and invoices, with further arguments.
func startPush(t *testing.T, env []string, args ...string) *pushed {
	t.Helper()
	url, name := brokerURL("NATS_URL", "nats://127.0.0.1:4222"), "cli-push-"+waybill.NewID()[24:]
	p := &pushed{T: t, server: url, stream: name, ended: make(chan int, 1)}
	var err error
	if p.broker, err = natsbroker.Open(t.Context(), natsbroker.Config{URL: url, Stream: name, SubjectPrefix: name + "."}); err != nil {
		t.Fatalf("NATS does not answer (%v); start it with: make services", err)
	}
	t.Cleanup(func() {
		_ = p.broker.Close()
		jetStream(t, url, func(js nats.JetStreamContext) error { return js.DeleteStream(name) })
	})
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	p.brokerArgs = []string{"--broker", url, "--nats-stream", name, "--nats-subject-prefix", name + "."}
	args = slices.Concat([]string{"push", "--topics", "orders, invoices", "--group", "push-1"}, p.brokerArgs, args)
	go func() { p.ended <- run(ctx, args, env, io.Discard, &p.log) }()
	waitFor(t, "the program runs", func() bool {
		if found := runningURL.FindStringSubmatch(p.log.String()); found != nil {
			p.url = found[1]
		}
		return p.url != "" || len(p.ended) > 0
	})
	if p.url == "" {
		t.Fatalf("it has ended with %d: %s", <-p.ended, p.log.String())
	}
	t.Cleanup(p.end)
	return p
}

// jetStream calls fn with a connection of its own.
func jetStream(t *testing.T, url string, fn func(js nats.JetStreamContext) error) {
	conn, err := nats.Connect(url)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	js, err := conn.JetStream()
	if err == nil {
		err = fn(js)
	}
	if err != nil {
		t.Error(err)
	}
}

// end stops the program and looks how it ended.
func (p *pushed) end() {
	p.stop()
	code, open := <-p.ended
	if open && code != exitOK {
		p.Errorf("exit code %d, %s", code, p.log.String())
	}
	if open {
		close(p.ended)
	}
}

func (p *pushed) publish(msgs ...waybill.Message) {
	p.Helper()
	out := make([]contract.Outgoing, len(msgs))
	for i := range msgs {
		msgs[i].Source, msgs[i].Type = "shop", msgs[i].Topic+".changed"
		msgs[i].Complete()
		out[i].Message = &msgs[i]
	}
	for _, err := range p.broker.Publisher().Send(p.Context(), out)() {
		if err != nil {
			p.Fatal(err)
		}
	}
}

// reader is a client that reads Server-Sent Events.
type reader struct {
	*testing.T
	lines *bufio.Scanner
}

// get asks for events and returns the status of the answer.
func (p *pushed) get(query string, header http.Header) (*reader, int) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), testPatience)
	p.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+query, nil)
	if err != nil {
		p.Fatal(err)
	}
	if header != nil {
		r.Header = header
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = res.Body.Close() })
	return &reader{p.T, bufio.NewScanner(res.Body)}, res.StatusCode
}

// connect is get for a client that must be let in.
func (p *pushed) connect(query string, header http.Header) *reader {
	p.Helper()
	r, status := p.get(query, header)
	if status != http.StatusOK {
		p.Fatalf("status %d, want 200", status)
	}
	return r
}

// until reads the payloads of messages up to the one that is named.
func (r *reader) until(last string) (payloads []string) {
	r.Helper()
	event := ""
	for r.lines.Scan() {
		name, value, _ := strings.Cut(r.lines.Text(), ": ")
		switch {
		case name == "event":
			event = value
		case name == "data" && event != "connected":
			payloads = append(payloads, value)
			if value == last {
				return payloads
			}
		}
	}
	r.Errorf("the stream ended (%v) after %q, want %q", r.lines.Err(), payloads, last)
	return payloads
}

func (r *reader) want(payloads ...string) {
	r.Helper()
	if got := r.until(payloads[len(payloads)-1]); strings.Join(got, " ") != strings.Join(payloads, " ") {
		r.Errorf("it was pushed %q, want %q", got, payloads)
	}
}

func bearerOf(name string) http.Header {
	return http.Header{"Authorization": []string{"Bearer token-of-" + name + "-0123456789"}}
}

// receives waits until the group receives what is published: it begins with what comes after.
func (p *pushed) receives() {
	p.Helper()
	probe := p.connect("", bearerOf("probe"))
	heard := make(chan struct{})
	go func() {
		probe.until("probe")
		close(heard)
	}()
	waitFor(p.T, "the group receives", func() bool {
		p.publish(waybill.Message{Topic: "orders", Payload: []byte("probe"), Headers: map[string]string{"push-users": "probe"}})
		select {
		case <-heard:
			return true
		default:
			return false
		}
	})
}

func writeTokens(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A client sees what its token grants, and nobody without one sees anything.
func TestPush_Tokens(t *testing.T) {
	t.Parallel()
	p := startPush(t, nil, "--to", "sse://127.0.0.1:0/events", "--tokens-file", writeTokens(t, tokensOfPush))
	p.receives()
	clients := map[string]*reader{
		"ann":  p.connect("", bearerOf("ann")),
		"bob":  p.connect("?access_token=token-of-bob-0123456789", nil),
		"acme": p.connect("", http.Header{"Cookie": []string{"access_token=token-of-acme-0123456789"}}),
	}
	for name, header := range map[string]http.Header{
		"nobody": nil, "a stranger": bearerOf("eve"), "an empty token": {"Authorization": []string{"Bearer "}},
		"its hash": {"Authorization": []string{"Bearer 52334763091e1317dab599b0ae187d3eef5d6a7bd1ad6ecf5f5379ce9f177ddd"}},
	} {
		if _, status := p.get("", header); status != http.StatusUnauthorized {
			t.Errorf("%s: status %d, want 401", name, status)
		}
	}
	if _, status := p.get("?topic=invoices&access_token=token-of-bob-0123456789", nil); status != http.StatusForbidden {
		t.Errorf("a topic that was not granted: status %d, want 403", status)
	}
	send := func(topic, payload string, m waybill.Message) waybill.Message {
		m.Topic, m.Payload, m.Key = topic, []byte(payload), "k"
		return m
	}
	users := func(names string) waybill.Message {
		return waybill.Message{Headers: map[string]string{"push-users": names}}
	}
	p.publish(
		send("orders", "all", waybill.Message{}), send("orders", "ann", users("ann")), send("orders", "bob", users("bob")),
		send("orders", "acme", waybill.Message{Tenant: "acme"}), send("orders", "end", waybill.Message{}),
		send("orders", "acme-end", waybill.Message{Tenant: "acme"}),
	)
	clients["ann"].want("all", "ann", "end")
	clients["bob"].want("all", "bob", "end")
	clients["acme"].want("acme", "acme-end")
	p.publish(send("invoices", "invoice", waybill.Message{}))
	clients["ann"].want("invoice")
	p.publish(send("orders", "last", waybill.Message{}))
	clients["bob"].want("last")

	p.end()
	for name, c := range clients {
		for c.lines.Scan() {
		}
		if err := c.lines.Err(); err != nil {
			t.Errorf("the stream of %s was cut off: %v", name, err)
		}
	}
	for _, secret := range []string{"token-of-", "52334763", "access_token"} {
		if strings.Contains(p.log.String(), secret) {
			t.Errorf("the log holds %q: %s", secret, p.log.String())
		}
	}
	for _, want := range []string{"push is best effort", "push has stopped"} {
		if !strings.Contains(p.log.String(), want) {
			t.Errorf("the log lacks %q: %s", want, p.log.String())
		}
	}
}

// A group that is new begins with what is published from then on, and what cannot be read does not
// hold up what follows it.
func TestPush_Receives(t *testing.T) {
	t.Parallel()
	p := startPush(t, nil, "--to", "sse://127.0.0.1:0/events", "--tokens-file", writeTokens(t, tokensOfPush))
	p.receives()
	jetStream(t, p.server, func(js nats.JetStreamContext) error {
		for c := range js.Consumers(p.stream) {
			if c.Config.DeliverPolicy != nats.DeliverNewPolicy {
				t.Errorf("%s begins with %v", c.Name, c.Config.DeliverPolicy)
			}
		}
		_, err := js.Publish(p.stream+".orders", []byte("S3CR3T"))
		return err
	})
	ann := p.connect("", bearerOf("ann"))
	p.publish(waybill.Message{Topic: "orders", Payload: []byte("next")})
	ann.until("next")
	waitFor(t, "the log tells", func() bool { return strings.Contains(p.log.String(), "no_id") })
	if strings.Contains(p.log.String(), "S3CR3T") {
		t.Errorf("the log holds a payload: %s", p.log.String())
	}
}

// The options may stand in the environment, and everybody on the machine is let in if that is said.
func TestPush_Anonymous(t *testing.T) {
	t.Parallel()
	p := startPush(t, []string{"WAYBILL_PUSH_TO=sse://127.0.0.1:0/a/b", "WAYBILL_PUSH_ALLOW_ANONYMOUS=true"})
	p.connect("", nil)
	if _, status := p.get("?topic=invoices", nil); status != http.StatusOK {
		t.Errorf("a topic: status %d, want 200", status)
	}
	if !strings.HasSuffix(p.url, "/a/b") {
		t.Errorf("the URL is %s", p.url)
	}
	for path, want := range map[string]int{"/health/live": 200, "/health/ready": 200, "/": 404} {
		res, err := http.Get(strings.TrimSuffix(p.url, "/a/b") + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, res.StatusCode, want)
		}
	}
	if _, status := p.get("", http.Header{"Origin": []string{"https://evil.example.com"}}); status != http.StatusForbidden {
		t.Errorf("a page of another host: status %d, want 403", status)
	}
}

// A client that connects again catches up from the archive of the store.
func TestPush_CatchesUp(t *testing.T) {
	t.Parallel()
	store := opener.StoreConfig{URL: newDatabase(t), Schema: "waybill"}
	db, s, err := opener.OpenSQL(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := s.Migrate(t.Context(), "", 0); err != nil {
		t.Fatal(err)
	}
	w, err := outbox.NewWriter(s, outbox.Config{Source: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Enqueue(t.Context(), tx, waybill.Message{ID: "m-1", Topic: "orders", Payload: []byte("one")}, waybill.Message{ID: "m-2", Topic: "orders", Payload: []byte("two")}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	p := startPush(t, nil, "--to", "sse://127.0.0.1:0/events", "--tokens-file", writeTokens(t, tokensOfPush), "--store", store.URL)
	relays := result{}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		relays = runProgram(ctx, nil, append([]string{"relay", "--store", store.URL}, p.brokerArgs...)...)
		close(done)
	}()
	live := p.connect("", bearerOf("ann"))
	live.until("two")
	waitFor(t, "the archive has them", func() bool {
		r := runProgram(t.Context(), nil, "outbox", "stats", "--store", store.URL)
		return strings.Contains(r.stdout, "Published  2")
	})
	stop()
	if <-done; relays.code != exitOK {
		t.Errorf("relay: %s", relays.stderr)
	}
	header := bearerOf("bob")
	header.Set("Last-Event-ID", "m-1")
	p.connect("", header).until("two")
}

func TestPush_Refuses(t *testing.T) {
	t.Parallel()
	tokens := writeTokens(t, tokensOfPush)
	good := []string{"--to", "sse://127.0.0.1:0/events", "--topics", "orders,invoices", "--group", "push-1", "--tokens-file", tokens, "--broker", "nats://127.0.0.1:4222"}
	sqlite := filepath.Join(t.TempDir(), "w.db")
	if r := runProgram(t.Context(), nil, "migrate", "--store", "sqlite:"+sqlite); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no URL", []string{"--to", ""}, "say where clients are served"},
		{"no port", []string{"--to", "sse://127.0.0.1/events"}, "has no port"},
		{"no path", []string{"--to", "sse://127.0.0.1:8090"}, "with a path of letters"},
		{"a path for the router", []string{"--to", "sse://127.0.0.1:8090/{x}"}, "with a path of letters"},
		{"a path that goes up", []string{"--to", "sse://127.0.0.1:8090/a/../b"}, "with a path of letters"},
		{"a secret in the URL", []string{"--to", "sse://u:S3CR3T@127.0.0.1:8090/events"}, "is no URL"},
		{"another scheme", []string{"--to", "wss://127.0.0.1:8090/events"}, "is no URL sse://"},
		{"SignalR", []string{"--to", "signalr://127.0.0.1:8090/push"}, "go install github.com/waybill-go/waybill/broker/signalrbroker/cmd/waybill@latest"},
		{"no topics", []string{"--topics", " ,"}, "name what is pushed"},
		{"a topic twice", []string{"--topics", "orders,invoices,orders"}, "is the same as"},
		{"no group", []string{"--group", ""}, "a consumer group of its own"},
		{"public, without tokens", []string{"--to", "sse://:8090/events", "--tokens-file="}, "nobody would be asked"},
		{"public, anonymous", []string{"--to", "sse://:8090/events", "--tokens-file=", "--allow-anonymous"}, "nobody would be asked"},
		{"nothing said of tokens", []string{"--tokens-file="}, "--allow-anonymous"},
		{"tokens and everybody", []string{"--allow-anonymous"}, "do not go together"},
		{"half of TLS", []string{"--tls-key", "k"}, "go together"},
		{"an origin with a path", []string{"--allowed-origins", "https://app.example.com/x"}, "AllowedOrigins[0]"},
		{"a topic that is not pushed", []string{"--topics", "orders"}, `"invoices", which is not among those that are pushed`},
		{"nothing granted", []string{"--tokens-file", writeTokens(t, "tokens: [{name: a, token: S3CR3T-0123456789abcdef}]")}, "nothing is granted by default"},
		{"a token twice", []string{"--tokens-file", writeTokens(t, `tokens:
  - {name: a, token: S3CR3T-0123456789abcdef, topics: [orders]}
  - {name: b, token: S3CR3T-0123456789abcdef, topics: [orders]}`)}, "is that of another name"},
		{"a short token", []string{"--tokens-file", writeTokens(t, "tokens: [{name: a, token: S3CR3T, topics: [orders]}]")}, "the minimum is 20"},
		{"an unknown field", []string{"--tokens-file", writeTokens(t, "tokens: [{name: a, S3CR3T: x}]")}, "user, tenant, topics and groups"},
		{"no broker", []string{"--broker", ""}, "no broker is set"},
		{"a broker in memory", []string{"--broker", "mem:"}, "lives in one process"},
		{"a webhook", []string{"--broker", "https://u:S3CR3T@example.com/hook"}, "is where webhooks are posted to"},
		{"itself", []string{"--broker", "sse://127.0.0.1:8090/events"}, "waybill push --broker"},
		{"a store without catching up", []string{"--store", "sqlite:" + sqlite}, "--store= goes without"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), testPatience)
			defer cancel()
			r := runProgram(ctx, nil, append(append([]string{"push"}, good...), tt.args...)...)
			if r.code != exitUsage || !strings.Contains(r.stderr, tt.want) || strings.Contains(r.stderr, "S3CR3T") {
				t.Errorf("exit code %d, want %d; %q is not in: %s", r.code, exitUsage, tt.want, r.stderr)
			}
		})
	}
}

// What clients are pushed by is no broker of a relay.
func TestOpenTarget_Push(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"sse", "signalr"} {
		cfg, err := config.Load(map[string]string{"broker": scheme + "://127.0.0.1:8090/x"}, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = openTarget(t.Context(), cfg, slog.Default())
		if want := fmt.Sprintf("run: waybill push --broker … --to %s://…", scheme); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("openTarget(%s) = %v, want %q", scheme, err, want)
		}
	}
}
