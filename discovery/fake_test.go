package discovery

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"
)

// said is something that is heard some time after a ping. The id "own" stands for the ping's.
type said struct {
	after time.Duration
	id    string
	body  string
}

// script is a transport on which the same is said after each ping.
type script struct {
	said []said
	err  error // of Ping, at once

	mu    sync.Mutex
	pings int
}

func (s *script) Ping(ctx context.Context, _, _, id string, _ []byte, hear func(string, []byte)) error {
	s.mu.Lock()
	s.pings++
	s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	start := time.Now()
	for _, x := range s.said {
		select {
		case <-time.After(time.Until(start.Add(x.after))):
		case <-ctx.Done():
			return nil
		}
		if x.id == "own" {
			x.id = id
		}
		hear(x.id, bytes.ReplaceAll([]byte(x.body), []byte("OWN"), []byte(id)))
	}
	<-ctx.Done()
	return nil
}

func (s *script) Listen(context.Context, string, string, []byte, func(string, []byte) []byte) error {
	return nil
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pings
}

// silent is a transport that must not be used.
type silent struct{ t *testing.T }

func (s silent) Ping(context.Context, string, string, string, []byte, func(string, []byte)) error {
	s.t.Error("the broker was asked")
	return nil
}

func (s silent) Listen(context.Context, string, string, []byte, func(string, []byte) []byte) error {
	s.t.Error("the broker was listened to")
	return nil
}

// logLines is a log that counts its records.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logLines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.buf.Bytes(), []byte(text))
}
