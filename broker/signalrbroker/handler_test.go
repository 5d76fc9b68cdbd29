package signalrbroker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/push"
)

// archive has all messages published so far.
type archive struct{ messages []*waybill.Message }

func (a *archive) PublishedAt(_ context.Context, id string, _ time.Duration) (time.Time, error) {
	for _, m := range a.messages {
		if m.ID == id {
			return time.Now(), nil
		}
	}
	return time.Time{}, waybill.ErrNotFound
}

func (a *archive) PublishedSince(_ context.Context, _ []string, _ time.Time, visit func(*waybill.Message) error) error {
	for _, m := range a.messages {
		if err := visit(m); err != nil {
			return err
		}
	}
	return nil
}

type world struct {
	*testing.T
	hub     *push.Hub
	archive *archive
	server  *httptest.Server
	serving atomic.Int32 // requests in progress
}

func newWorld(t *testing.T, cfg push.Config) *world {
	t.Helper()
	w := &world{T: t, archive: &archive{}}
	cfg.Archive, cfg.Log = w.archive, slog.New(slog.DiscardHandler)
	cfg.Authorize = func(r *http.Request) (push.Grant, error) {
		user, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if user == "" {
			user = r.URL.Query().Get("access_token")
		}
		switch user {
		case "ann":
			return push.Grant{User: "ann", Topics: []string{"orders"}, Groups: []string{"admins"}}, nil
		case "bob":
			return push.Grant{User: "bob", Topics: []string{"orders"}}, nil
		case "eve":
			return push.Grant{User: "eve"}, nil
		}
		return push.Grant{}, push.ErrUnauthenticated
	}
	var err error
	if w.hub, err = push.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h, err := New(ctx, w.hub, Config{Path: "/push", AllowedOrigins: cfg.AllowedOrigins})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/push", h)
	mux.Handle("/push/", h)
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.serving.Add(1)
		defer w.serving.Add(-1)
		mux.ServeHTTP(out, r)
	}))
	// Sockets that hold little make a write wait for a client that does not read.
	w.server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
		return ctx
	}
	w.server.Start()
	t.Cleanup(w.server.Close)
	t.Cleanup(cancel)
	return w
}

func (w *world) push(id, payload string, headers map[string]string) {
	w.Helper()
	m := &waybill.Message{ID: id, Type: "order.created", Topic: "orders", Payload: []byte(payload), Headers: headers}
	w.archive.messages = append(w.archive.messages, m)
	if err := w.hub.Push(m); err != nil {
		w.Fatal(err)
	}
}

// patience ends a test that hangs: each wait ends as soon as its condition holds.
const patience = 5 * time.Minute

func (w *world) until(what string, ok func() bool) {
	w.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			w.Fatalf("waited %v until %s", patience, what)
		}
	}
}

// browser is a program on @microsoft/signalr.
type browser struct {
	*testing.T
	out *bufio.Scanner
}

type call struct {
	Method string
	Args   []json.RawMessage
}

func (w *world) browse(token string) *browser {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), "node", "../../examples/interop/signalr/receive.mjs", w.server.URL+"/push", token, "order.created")
	in, err := cmd.StdinPipe()
	if err != nil {
		w.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	cmd.Stderr = w.Output()
	if err := cmd.Start(); err != nil {
		w.Fatalf("%v: run make services, which installs Node.js and the clients", err)
	}
	w.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	return &browser{T: w.T, out: bufio.NewScanner(out)}
}

func (b *browser) next() (c call) {
	b.Helper()
	if !b.out.Scan() {
		b.Fatal("the client has ended")
	}
	if err := json.Unmarshal(b.out.Bytes(), &c); err != nil {
		b.Fatalf("%v: %s", err, b.out.Text())
	}
	return c
}

// want waits for a call and compares the method, and the first argument if one is given.
func (b *browser) want(method, argument string) call {
	b.Helper()
	c := b.next()
	if c.Method != method || argument != "" && string(c.Args[0]) != argument {
		b.Errorf("got %s(%s), want %s(%s)", c.Method, c.Args, method, argument)
	}
	return c
}

func TestInterop_UsersGroupsBroadcast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, push.Config{})
	ann, bob := w.browse("ann"), w.browse("bob")
	var annsConnection string
	if err := json.Unmarshal(ann.want("connected", "").Args[0], &annsConnection); err != nil {
		t.Fatal(err)
	}
	bob.want("connected", "")
	w.push("1", `{"total":12.50}`, nil)
	w.push("2", `"for ann"`, map[string]string{push.HeaderUsers: "ann"})
	w.push("3", `"for bob"`, map[string]string{push.HeaderUsers: "bob"})
	w.push("4", `"for admins"`, map[string]string{push.HeaderGroups: "admins"})
	w.push("5", `"not for ann"`, map[string]string{push.HeaderExclude: annsConnection})
	w.push("6", "no JSON", nil)
	w.push("7", "\xff", nil)

	var meta Meta
	if err := json.Unmarshal(ann.want("order.created", `{"total":12.5}`).Args[1], &meta); err != nil || meta.ID != "1" || meta.Topic != "orders" {
		t.Errorf("the meta is %+v, %v", meta, err)
	}
	ann.want("order.created", `"for ann"`)
	ann.want("order.created", `"for admins"`)
	ann.want("order.created", `"no JSON"`)
	if err := json.Unmarshal(ann.want("order.created", `"/w=="`).Args[1], &meta); err != nil || !meta.Base64 {
		t.Errorf("the meta of bytes is %+v, %v", meta, err)
	}
	for _, want := range []string{`{"total":12.5}`, `"for bob"`, `"not for ann"`, `"no JSON"`, `"/w=="`} {
		bob.want("order.created", want)
	}
}

func TestInterop_Refused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, push.Config{})
	for token, status := range map[string]string{"eve": "403", "mallory": "401"} {
		if c := w.browse(token).want("refused", ""); !strings.Contains(string(c.Args[0]), status) {
			t.Errorf("%s received %s, want status %s", token, c.Args, status)
		}
	}
	if n := w.hub.Stats().Clients; n != 0 {
		t.Errorf("%d clients are connected", n)
	}
}

func TestInterop_CatchesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, push.Config{})
	ann := w.browse("ann")
	ann.want("connected", "")
	w.push("1", "1", nil)
	ann.want("order.created", "1")
	if n := w.hub.Disconnect("ann"); n != 1 {
		t.Fatalf("%d clients were disconnected", n)
	}
	w.push("2", "2", nil) // it may be connected again by now, or not
	ann.want("connected", "")
	for c := ann.next(); string(c.Args[0]) != "2"; c = ann.next() {
		if c.Method != "order.created" || string(c.Args[0]) != "1" {
			t.Fatalf("got %s(%s)", c.Method, c.Args)
		}
	}
}

// dial connects a client that does not read, after the handshake.
func (w *world) dial(headers http.Header) (*websocket.Conn, error) {
	w.Helper()
	conn, _, err := websocket.Dial(w.Context(), w.server.URL+"/push?access_token=ann", &websocket.DialOptions{
		HTTPHeader: headers,
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dialSmall}},
	})
	if err != nil {
		return nil, err
	}
	w.Cleanup(func() { _ = conn.CloseNow() })
	return conn, conn.Write(w.Context(), websocket.MessageText, []byte(`{"protocol":"json","version":1}`+"\x1e"))
}

func dialSmall(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		err = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	}
	return conn, err
}

// TestSlowClient (AS-72): a client that reads nothing is disconnected when its buffer is full, although the library is in
// a write that does not return, and its request ends.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, push.Config{Buffer: 4})
	if _, err := w.dial(nil); err != nil {
		t.Fatal(err)
	}
	w.until("it is connected", func() bool { return w.hub.Stats().Clients == 1 })
	large := `"` + strings.Repeat("x", 512<<10) + `"`
	w.until("it is disconnected", func() bool {
		w.push("1", large, nil)
		return w.hub.Stats().Clients == 0
	})
	if got := w.hub.Stats(); got.Slow != 1 {
		t.Errorf("stats = %+v, want one slow client", got)
	}
	w.until("its request has ended", func() bool { return w.serving.Load() == 0 })
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, push.Config{AllowedOrigins: []string{"https://app.example.com"}})
	for origin, want := range map[string]bool{
		w.server.URL: true, "https://app.example.com": true, "https://evil.example.com": false, "http://app.example.com": false,
	} {
		_, err := w.dial(http.Header{"Origin": []string{origin}})
		if got := err == nil; got != want {
			t.Errorf("a page of %s: %v", origin, err)
		}
	}
}

func TestClientGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, push.Config{})
	conn, err := w.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.until("it is connected", func() bool { return w.hub.Stats().Clients == 1 })
	_ = conn.CloseNow()
	w.until("it is gone", func() bool { return w.hub.Stats().Clients == 0 && w.serving.Load() == 0 })
}

// Clients can call nothing, not even what the library needs.
func TestNoMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, push.Config{})
	conn, err := w.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":1,"target":"initialize","arguments":[null],"invocationId":"1"}`+"\x1e"))
	for {
		_, b, err := conn.Read(t.Context())
		if err != nil {
			t.Fatalf("the connection ended: %v", err)
		}
		if strings.Contains(string(b), `"invocationId":"1"`) {
			break // answered; what is left is that the hub still works
		}
	}
	w.push("1", "1", nil)
	for {
		_, b, err := conn.Read(t.Context())
		if err != nil {
			t.Fatalf("the connection ended: %v", err)
		}
		if strings.Contains(string(b), "order.created") {
			return
		}
	}
}

func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, push.Config{})
	var invalid *waybill.InvalidError
	if _, err := New(t.Context(), nil, Config{Path: "/push"}); !errors.As(err, &invalid) || invalid.Field != "signalrbroker.hub" {
		t.Errorf("without a hub: %v", err)
	}
	for _, path := range []string{"", "/", "push", "/push/"} {
		if _, err := New(t.Context(), w.hub, Config{Path: path}); !errors.As(err, &invalid) || invalid.Field != "signalrbroker.Path" {
			t.Errorf("with the path %q: %v", path, err)
		}
	}
}
