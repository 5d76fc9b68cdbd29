package push

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
)

// httpClient keeps no connections: httptest closes idle ones of the default client, also those that
// another test is about to use.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// eventSource reads a stream of Server-Sent Events as browsers do.
type eventSource struct {
	*testing.T
	lines  *bufio.Scanner
	lastID string
	retry  string
	close  func()
}

// listen connects to a server; header and value pairs go with the request.
func listen(t *testing.T, url string, headers ...string) *eventSource {
	t.Helper()
	res := request(t, http.MethodGet, url, headers...)
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("GET %s: %s, %s", url, res.Status, res.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 2*waybill.MaxPayloadLen)
	s := &eventSource{T: t, lines: lines, close: func() { _ = res.Body.Close() }}
	if name, _ := s.next(); name != "connected" {
		t.Fatalf("the first event is %q", name)
	}
	return s
}

func request(t *testing.T, method, url string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := httpClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// next returns name and data of the next event that has data.
func (s *eventSource) next() (name, data string) {
	s.Helper()
	var lines []string
	for s.lines.Scan() {
		field, value, _ := strings.Cut(s.lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			lines = append(lines, value)
		case "id":
			s.lastID = value
		case "retry":
			s.retry = value
		case "":
			if s.lines.Text() == "" && len(lines) > 0 {
				return name, strings.Join(lines, "\n")
			}
		}
	}
	s.Fatalf("the stream ended: %v", s.lines.Err())
	return "", ""
}

func (s *eventSource) want(name, data, lastID string) {
	s.Helper()
	gotName, gotData := s.next()
	if gotName != name || gotData != data || s.lastID != lastID {
		s.Errorf("event %q with data %q, id %q, want %q, %q, %q", gotName, gotData, s.lastID, name, data, lastID)
	}
}

func serve(t *testing.T, cfg Config) (*Hub, string) {
	t.Helper()
	h := newHub(t, cfg)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = h.Close() }) // first
	return h, server.URL
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("waiting until %s: the test has ended", what)
		}
	}
}

func TestEvents_Data(t *testing.T) {
	t.Parallel()
	h, url := serve(t, Config{Retry: 1500 * time.Millisecond})
	s := listen(t, url)
	if s.retry != "1500" || !strings.HasPrefix(s.lastID, timePrefix) {
		t.Errorf("retry %q and id %q with the first event", s.retry, s.lastID)
	}
	for _, tt := range []struct{ payload, data string }{
		{`{"total": 12.50}`, `{"total": 12.50}`},
		{"", ""},
		{"two\nlines", "two\nlines"},
		{"ends\n", "ends\n"},
		{" blank first", " blank first"},
		{"data: id: event: ünïcode", "data: id: event: ünïcode"},
		{"a\r\nb", "data:text/x;base64,YQ0KYg=="},
		{"a\x00b", "data:text/x;base64,YQBi"},
		{"\xff\xfe", "data:text/x;base64,//4="},
	} {
		m := &waybill.Message{ID: "id of " + fmt.Sprintf("%x", tt.payload), Type: "order.created", Topic: "orders", Payload: []byte(tt.payload), ContentType: "text/x"}
		pushAll(t, h, m)
		s.want("order.created", tt.data, m.ID)
	}
	large := message("large")
	large.Payload = []byte(strings.Repeat("x", waybill.MaxPayloadLen))
	pushAll(t, h, large)
	s.want("order.created", string(large.Payload), "large")
}

// A message that another system wrote cannot put events of its own into the stream.
func TestEvents_CannotBeForged(t *testing.T) {
	t.Parallel()
	h, url := serve(t, Config{})
	s := listen(t, url)
	id := s.lastID
	pushAll(t, h, &waybill.Message{ID: "1\nevent: reset\ndata: x\n\n", Type: "a\r\rdata: forged\r\r", Topic: "orders", Payload: []byte("x")})
	s.want("", "x", id)
	pushAll(t, h, &waybill.Message{ID: "2", Type: "b", ContentType: "x/y\n\ndata: forged\n\n", Topic: "orders", Payload: []byte("\xff")})
	s.want("b", "data:;base64,/w==", "2")
}

func TestEvents_CatchUp(t *testing.T) {
	t.Parallel()
	a := &archive{}
	h, url := serve(t, Config{Archive: a})
	first := listen(t, url)
	a.add(message("1"))
	pushAll(t, h, message("1"))
	first.want("order.created", "payload of 1", "1")
	first.close()
	a.add(message("2"))
	for _, s := range []*eventSource{listen(t, url, "Last-Event-ID", "1"), listen(t, url+"?lastEventId=1")} {
		s.want("order.created", "payload of 1", "1")
		s.want("order.created", "payload of 2", "2")
	}
	unknown := listen(t, url, "Last-Event-ID", "x")
	if name, data := unknown.next(); name != "reset" || data != "unknown" {
		t.Errorf("event %q with data %q, want a reset", name, data)
	}
}

func TestEvents_Heartbeat(t *testing.T) {
	t.Parallel()
	_, url := serve(t, Config{Heartbeat: 10 * time.Millisecond})
	s := listen(t, url)
	for s.lines.Scan() && s.lines.Text() != ":" {
	}
	if err := s.lines.Err(); err != nil {
		t.Errorf("no heartbeat came: %v", err)
	}
}

// HTTP/2 ends a stream when a write deadline passes, whether or not something is being written.
func TestEvents_IdleOnHTTP2(t *testing.T) {
	t.Parallel()
	h := newHub(t, Config{WriteTimeout: 200 * time.Millisecond, Heartbeat: 500 * time.Millisecond})
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	defer h.Close() // first
	res, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	heartbeats, lines := 0, bufio.NewScanner(res.Body)
	for heartbeats < 2 && lines.Scan() {
		if lines.Text() == ":" {
			heartbeats++
		}
	}
	if heartbeats < 2 || res.ProtoMajor != 2 {
		t.Errorf("the stream ended after %d heartbeats over %s: %v", heartbeats, res.Proto, lines.Err())
	}
}

// A client that is gone leaves nothing behind, and neither does one that reads nothing, on a real
// connection.
func TestEvents_ClientGone(t *testing.T) {
	t.Parallel()
	h, url := serve(t, Config{})
	s := listen(t, url)
	if n := h.Stats().Clients; n != 1 {
		t.Errorf("%d clients are connected, want 1", n)
	}
	s.close()
	until(t, "the client is gone", func() bool { return h.Stats().Clients == 0 })
}

func TestEvents_ClientThatReadsNothing(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"full buffer":   {Buffer: 4, WriteTimeout: time.Hour},
		"write timeout": {Buffer: maxBuffer, WriteTimeout: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, cfg)
			ended := make(chan struct{})
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				h.ServeHTTP(w, r)
			}))
			// Sockets that hold little make a write wait for the client.
			server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
				_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
				return ctx
			}
			server.Start()
			defer server.Close()
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			_, _ = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			until(t, "it is connected", func() bool { return h.Stats().Clients == 1 })
			m := message("1")
			m.Payload = []byte(strings.Repeat("x", 512<<10))
			until(t, "it is disconnected", func() bool { pushAll(t, h, m); return h.Stats().Clients == 0 })
			<-ended
			if got, want := h.Stats().Slow, map[string]int{"full buffer": 1}[name]; got != want {
				t.Errorf("%d slow clients are counted, want %d", got, want)
			}
		})
	}
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	authorize := func(r *http.Request) (Grant, error) {
		switch r.Header.Get("Authorization") {
		case "ann":
			return Grant{User: "ann", Topics: []string{"orders", "stock"}}, nil
		case "nothing":
			return Grant{User: "bob", Groups: []string{"all"}}, nil
		case "refused":
			return Grant{Topics: []string{"orders"}}, errors.New("token 12345 has expired")
		}
		return Grant{Topics: []string{"orders"}}, fmt.Errorf("no token: %w", ErrUnauthenticated)
	}
	h, url := serve(t, Config{Authorize: authorize, AllowedOrigins: []string{"https://app.example.com"}})
	for _, tt := range []struct {
		name, method, query, user, origin string
		status                            int
	}{
		{"no rights are none", "GET", "", "nothing", "", 403},
		{"refused", "GET", "", "refused", "", 403},
		{"not authenticated", "GET", "", "", "", 401},
		{"granted", "GET", "", "ann", "", 200},
		{"a granted topic", "GET", "?topic=stock", "ann", "", 200},
		{"another topic", "GET", "?topic=stock&topic=pay", "ann", "", 403},
		{"method", "POST", "", "ann", "", 405},
		{"a page of the same host", "GET", "", "ann", url, 200},
		{"an allowed page", "GET", "", "ann", "https://app.example.com", 200},
		{"the allowed page by another scheme", "GET", "", "ann", "http://app.example.com", 403},
		{"another page", "GET", "", "ann", "https://evil.example.com", 403},
		{"a page without origin", "GET", "", "ann", "null", 403},
		{"preflight of an allowed page", "OPTIONS", "", "", "https://app.example.com", 204},
		{"preflight of another page", "OPTIONS", "", "", "https://evil.example.com", 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, tt.method, url+tt.query, nil)
			req.Header.Set("Authorization", tt.user)
			if tt.origin != "" {
				req.Header.Set("Origin", tt.origin)
			}
			res, err := httpClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != tt.status {
				t.Errorf("status %d, want %d", res.StatusCode, tt.status)
			}
			allowed := res.Header.Get("Access-Control-Allow-Origin")
			if want := tt.origin == "https://app.example.com"; (allowed == tt.origin && allowed != "") != want {
				t.Errorf("Access-Control-Allow-Origin is %q", allowed)
			}
			if tt.status == 200 {
				return
			}
			if body, _ := io.ReadAll(res.Body); strings.Contains(string(body), "12345") {
				t.Errorf("the answer tells what Authorize said: %s", body)
			}
		})
	}
	_ = h.Close()
}

func TestAdmit_NarrowsTopics(t *testing.T) {
	t.Parallel()
	h, url := serve(t, Config{Authorize: func(*http.Request) (Grant, error) { return Grant{Topics: []string{"orders", "stock"}}, nil }})
	s := listen(t, url+"?topic=orders")
	stock := message("1")
	stock.Topic = "stock"
	pushAll(t, h, stock, message("2"))
	s.want("order.created", "payload of 2", "2")
}

func TestServeHTTP_Full(t *testing.T) {
	t.Parallel()
	h, url := serve(t, Config{MaxClients: 1})
	listen(t, url)
	if res := request(t, http.MethodGet, url); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") != "3" {
		t.Errorf("one too many: %s, Retry-After %q", res.Status, res.Header.Get("Retry-After"))
	}
	_ = h.Close()
	if res := request(t, http.MethodGet, url); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("after Close: %s", res.Status)
	}
}

// endsWhileWritten is a response during whose writes the client's session ends.
type endsWhileWritten struct {
	*httptest.ResponseRecorder
	end       func()
	deadlines chan time.Time
}

func (w endsWhileWritten) SetWriteDeadline(t time.Time) error {
	w.deadlines <- t
	return nil
}

func (w endsWhileWritten) Write(p []byte) (int, error) {
	w.end()
	return w.ResponseRecorder.Write(p)
}

// TestStream_EndsWhileWritten: a client whose session ends while an event is written to it has a moment
// left to take the event and the end of the stream.
func TestStream_EndsWhileWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := endsWhileWritten{httptest.NewRecorder(), cancel, make(chan time.Time, 2)}
		s := stream{w: w, rc: http.NewResponseController(w), timeout: time.Minute}
		if err := s.send(ctx, Event{Kind: MessageEvent, Message: &waybill.Message{ID: "1", Payload: []byte("x")}}); err != nil {
			t.Fatal(err)
		}
		<-w.deadlines // of the write
		synctest.Wait()
		if left := time.Until(<-w.deadlines); left != lastWrite {
			t.Errorf("%v are left for the write, want %v", left, lastWrite)
		}
	})
}
