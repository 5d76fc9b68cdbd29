package cli

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/waybill-go/waybill/internal/httpserve"
)

// listenFlags configure where to serve.
type listenFlags struct{ listen, cert, key string }

// check refuses flags that cannot be served, and returns whether only this machine can connect.
func (f listenFlags) check() (local bool, err error) {
	host, _, err := net.SplitHostPort(f.listen)
	switch {
	case err != nil:
		return false, usagef("--listen is %q; it is host:port, such as 127.0.0.1:8080", f.listen)
	case (f.cert == "") != (f.key == ""):
		return false, usagef("--tls-cert and --tls-key go together")
	}
	return isLocal(host), nil
}

func (f listenFlags) speaksTLS() bool { return f.cert != "" && f.key != "" }

const serverGrace = 5 * time.Second

// serveUntil serves until ctx is done, and then lets requests in flight finish. It calls say
// with the URL once it listens.
func serveUntil(ctx context.Context, server *http.Server, f listenFlags, say func(url string)) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return err
	}
	listener = httpserve.Limit(listener, httpserve.MaxConns)
	scheme, serve := "http", func() error { return server.Serve(listener) }
	if f.speaksTLS() {
		scheme, serve = "https", func() error { return server.ServeTLS(listener, f.cert, f.key) }
	}
	say(scheme + "://" + listener.Addr().String() + "/")
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), serverGrace)
	defer cancel()
	return server.Shutdown(grace)
}
