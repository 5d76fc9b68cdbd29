package conformance

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// TestNATSBroker_StopBehindSlowServer stops a subscription whose messages the server has taken from
// the stream and not sent yet. They must go to the next subscriber, in order, although nothing arrives
// for as long as the subscription does not ask.
func TestNATSBroker_StopBehindSlowServer(t *testing.T) {
	t.Parallel()
	const n = 3
	cfg := natsConfig(t, natsURL(t))
	cfg.AckWait *= 100 // what comes again was given back
	b := natsOpen(t, cfg)
	slow := startNATSSlow(t, cfg.URL)
	through := cfg
	through.URL = slow.url
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	first := natsOpen(t, through)
	go func() {
		ended <- first.Subscriber(s).Subscribe(ctx, 2*n, func(d contract.Delivery) { t.Errorf("%v arrived, want nothing", d) })
	}()
	<-slow.asked
	natsMustSend(t, b, natsMessages("t", 1, n))
	natsEventually(t, "the server to deliver", func() bool { return slow.holds() == n })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Subscribe() = %v", err)
	}
	wantNATSInOrder(t, b, s, n)
}

// wantNATSInOrder subscribes, and expects the messages 1 to n.
func wantNATSInOrder(t *testing.T, b *natsbroker.Broker, s consumer.Subscription, n int) {
	t.Helper()
	got, _ := natsSubscribe(t, b, s)
	for i := range n {
		natsExpect(t, got, fmt.Sprint(i+1))
	}
}

// natsSlow is a server whose consumers are slow to send: a connection to the server that holds back
// messages from the first request for some until the client asks for more, and forgets them if the
// client unsubscribes before. The rest passes.
type natsSlow struct {
	url   string
	asked chan struct{} // closed when the first request has passed

	mu       sync.Mutex
	requests int
	held     []natsFrame
}

// natsFrame is a line of the protocol with the payload that belongs to it.
type natsFrame struct {
	fields [][]byte
	bytes  []byte
}

func (f natsFrame) is(verbs ...string) bool {
	for _, verb := range verbs {
		if len(f.fields) > 0 && string(f.fields[0]) == verb {
			return true
		}
	}
	return false
}

func startNATSSlow(t *testing.T, server string) *natsSlow {
	t.Helper()
	u, err := url.Parse(server)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &natsSlow{url: "nats://" + l.Addr().String(), asked: make(chan struct{})}
	var running sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	running.Go(func() {
		client, err := l.Accept()
		if err != nil {
			return
		}
		defer client.Close()
		upstream, err := net.Dial("tcp", u.Host)
		if err != nil {
			return
		}
		running.Go(func() {
			defer upstream.Close()
			natsFrames(client, func(f natsFrame) { s.fromClient(f, client, upstream) })
		})
		natsFrames(upstream, func(f natsFrame) { s.fromServer(f, client) })
	})
	return s
}

// natsFrames reads frames until there are no more.
func natsFrames(from io.Reader, pass func(natsFrame)) {
	r := bufio.NewReader(from)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		f := natsFrame{fields: bytes.Fields(line), bytes: line}
		if f.is("PUB", "HPUB", "MSG", "HMSG") {
			size, _ := strconv.Atoi(string(f.fields[len(f.fields)-1]))
			payload := make([]byte, size+len("\r\n"))
			if _, err := io.ReadFull(r, payload); err != nil {
				return
			}
			f.bytes = append(f.bytes, payload...)
		}
		pass(f)
	}
}

// holds returns the number of messages of the stream that are held back.
func (s *natsSlow) holds() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.held {
		if bytes.HasPrefix(f.fields[3], []byte("$JS.ACK.")) { // where others have their size
			n++
		}
	}
	return n
}

func (s *natsSlow) fromServer(f natsFrame, client io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests == 1 && f.is("MSG", "HMSG") {
		s.held = append(s.held, f)
		return
	}
	client.Write(f.bytes)
}

func (s *natsSlow) fromClient(f natsFrame, client, server io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f.is("UNSUB"):
		s.held = nil
	case f.is("PUB", "HPUB") && bytes.HasPrefix(f.fields[1], []byte("$JS.API.CONSUMER.MSG.NEXT.")):
		if s.requests++; s.requests == 1 {
			close(s.asked)
		}
		for _, f := range s.held {
			client.Write(f.bytes)
		}
		s.held = nil
	}
	server.Write(f.bytes)
}
