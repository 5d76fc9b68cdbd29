package httpserve

import (
	"bufio"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.done); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// TestNew_SlowClients: neither headers nor a body that never end keep a connection, and an idle one goes.
func TestNew_SlowClients(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]string{
		"header": "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ",
		"body":   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf",
		"idle":   "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := pipes{make(chan net.Conn, 10), make(chan struct{})}
				server := New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					_, _ = bufio.NewReader(r.Body).ReadString(0)
				}), slog.New(slog.DiscardHandler))
				ended := make(chan error, 1)
				go func() { ended <- server.Serve(Limit(p, MaxConns)) }()
				conn, began := p.dial(), time.Now()
				go func() { _, _ = conn.Write([]byte(sent)) }()
				_, _ = bufio.NewReader(conn).ReadString(0)
				if held := time.Since(began); held > idleTimeout+time.Second {
					t.Errorf("the connection was held for %v", held)
				}
				_ = server.Close()
				<-ended
			})
		})
	}
}

// TestLimit: a connection more than the limit waits for one to end.
func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pipes{make(chan net.Conn, 10), make(chan struct{})}
		l := Limit(p, 2)
		accepted := make(chan net.Conn, 10)
		ended := make(chan error, 1)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					ended <- err
					return
				}
				accepted <- c
			}
		}()
		for range 3 {
			p.dial()
		}
		synctest.Wait()
		if len(accepted) != 2 {
			t.Fatalf("%d connections were accepted, want 2", len(accepted))
		}
		first := <-accepted
		_ = first.Close()
		_ = first.Close() // frees no second slot
		synctest.Wait()
		if len(accepted) != 2 || len(p.conns) != 0 {
			t.Errorf("%d connections are held and %d wait, want 2 and 0", len(accepted), len(p.conns))
		}
		_ = l.Close()
		if err := <-ended; !strings.Contains(err.Error(), "closed") {
			t.Errorf("Accept() = %v", err)
		}
	})
}
