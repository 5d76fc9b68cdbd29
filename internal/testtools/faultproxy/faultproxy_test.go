package faultproxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

const patience = 5 * time.Minute

// echo starts a server that sends everything back, and a proxy in front of it.
func echo(t *testing.T) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // ends with the connection
			}()
		}
	}()
	p, err := New(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", p.Addr(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatalf("Write() = %v", err)
	}
}

func expect(t *testing.T, c net.Conn, want string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience)) // the read fails too
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, []byte(want)) {
		t.Fatalf("read %q, %v, want %q", got, err, want)
	}
}

func expectNothing(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // the read fails too
	if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v, want nothing while stalled", n, err)
	}
}

func expectEnd(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience)) // the read fails too
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("Read() = %v, want the connection ended", err)
	}
}

func TestProxy_Stall(t *testing.T) {
	t.Parallel()
	p := echo(t)
	c := dial(t, p)
	write(t, c, "before")
	expect(t, c, "before")
	for _, stall := range []func(bool){p.Stall, p.StallReplies} {
		stall(true)
		write(t, c, "held")
		expectNothing(t, c)
		stall(false)
		expect(t, c, "held")
	}
	if err := p.Inject([]byte("injected")); err != nil {
		t.Fatal(err)
	}
	expect(t, c, "injected")
}

func TestProxy_Swallow(t *testing.T) {
	t.Parallel()
	p := echo(t)
	old := dial(t, p)
	write(t, old, "x")
	expect(t, old, "x")
	p.Swallow()
	write(t, old, "lost")
	fresh := dial(t, p)
	write(t, fresh, "y")
	expect(t, fresh, "y")
	expectNothing(t, old)
}

func TestProxy_Cut(t *testing.T) {
	t.Parallel()
	p := echo(t)
	first, second := dial(t, p), dial(t, p)
	for _, c := range []net.Conn{first, second} {
		write(t, c, "x")
		expect(t, c, "x")
	}
	p.Stall(true)
	write(t, first, "lost")
	p.Cut()
	expectEnd(t, first)
	expectEnd(t, second)
	p.Stall(false)
	p.Refuse(true)
	if c, err := net.DialTimeout("tcp", p.Addr(), patience); err == nil { // else reset already
		expectEnd(t, c)
		c.Close()
	}
	p.Refuse(false)
	again := dial(t, p)
	write(t, again, "x")
	expect(t, again, "x")
	if n := p.Conns(); n != 1 {
		t.Errorf("Conns() = %d, want 1", n)
	}
	p.Close()
	expectEnd(t, again)
}

// TestProxy_CutOn sends a text whole, and in two parts: what was sent before it arrives, it does not.
func TestProxy_CutOn(t *testing.T) {
	t.Parallel()
	p := echo(t)
	p.CutOn("marker")
	c := dial(t, p)
	write(t, c, "other text")
	expect(t, c, "other text")
	write(t, c, "and mar")
	expect(t, c, "and mar")
	write(t, c, "ker")
	expectEnd(t, c)
	p.CutOn("")
	again := dial(t, p)
	write(t, again, "marker")
	expect(t, again, "marker")
}

func TestWatched_ReadsUpToTheText(t *testing.T) {
	t.Parallel()
	for _, parts := range [][]string{{"before marker after"}, {"before ", "marker after"}, {"before mar", "ker after"}, {"b", "efore m", "a", "rker"}} {
		ours, theirs := net.Pipe()
		tr := &trap{}
		tr.set("marker")
		go func() {
			defer theirs.Close()
			for _, part := range parts {
				if _, err := theirs.Write([]byte(part)); err != nil {
					return
				}
			}
		}()
		got, err := io.ReadAll(&watched{conn: ours, trap: tr})
		ours.Close()
		if text := string(got); err != nil || !strings.HasPrefix(text, "before ") || strings.HasSuffix(text, "marker") {
			t.Errorf("%q: read %q, %v, want what comes before the marker", parts, text, err)
		}
	}
}

func TestProxy_DropsCancels(t *testing.T) {
	t.Parallel()
	p := echo(t)
	p.dropCancels()
	startup := "\x00\x00\x00\x0c\x00\x03\x00\x00user" // protocol 3.0
	c := dial(t, p)
	write(t, c, startup+"query")
	expect(t, c, startup+"query")
	cancel := dial(t, p)
	write(t, cancel, "\x00\x00\x00\x10\x04\xd2\x16\x2eprocess!")
	expectEnd(t, cancel)
}
