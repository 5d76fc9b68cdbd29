package rabbitbroker

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// pipe returns a wire and what reads its other end.
func pipe(t *testing.T) (*wire, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() {
		near.Close()
		far.Close()
	})
	return &wire{Conn: near}, far
}

func TestWire_Cork(t *testing.T) {
	t.Parallel()
	w, far := pipe(t)
	read := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(far)
		read <- all
	}()
	var want []byte
	write := func(n int) {
		p := bytes.Repeat([]byte{byte(len(want))}, n)
		want = append(want, p...)
		if written, err := w.Write(p); written != n || err != nil {
			t.Fatalf("Write() = %d, %v, want %d", written, err, n)
		}
	}
	write(1)
	w.cork()
	write(2)
	write(corkSize - 2)
	write(1) // the first that does not fit
	write(3 * corkSize)
	write(5)
	if err := w.uncork(); err != nil {
		t.Fatalf("uncork() = %v", err)
	}
	write(7)
	w.Close()
	if got := <-read; !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived, want the %d written, in order", len(got), len(want))
	}
}

func TestWire_Limit(t *testing.T) {
	t.Parallel()
	w, far := pipe(t)
	ctx, cancel := context.WithCancel(context.Background())
	release := w.limit(ctx)
	failed := make(chan error, 1)
	go func() {
		_, err := w.Write([]byte("nobody reads"))
		failed <- err
	}()
	cancel()
	select {
	case err := <-failed:
		if err == nil {
			t.Error("Write() = nil though nobody reads")
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("Write() goes on after its context has ended")
	}
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("Write() = nil before release")
	}
	release()
	go io.Copy(io.Discard, far) // ends with the pipe
	if _, err := w.Write([]byte("x")); err != nil {
		t.Errorf("Write() = %v after release, want nil", err)
	}
}
