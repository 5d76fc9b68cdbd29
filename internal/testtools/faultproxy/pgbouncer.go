package faultproxy

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"os"
	"sync"
)

// PgBouncerURL leads to the PostgreSQL database that tests use through PgBouncer in the pool mode
// transaction: to $PGBOUNCER_URL, or to the one that "make services" starts. Statements are
// described each time instead of being prepared once: the next transaction may not find what one
// has prepared.
//
// In between is a proxy that drops cancel requests: PgBouncer 1.18, the one of Debian 12, crashes
// on them now and then (https://github.com/pgbouncer/pgbouncer/issues/801), and each program whose
// context ends within a statement sends one.
var PgBouncerURL = sync.OnceValues(func() (string, error) {
	to := os.Getenv("PGBOUNCER_URL")
	if to == "" {
		to = "postgres://postgres@127.0.0.1:6432/test?sslmode=disable&default_query_exec_mode=cache_describe"
	}
	u, err := url.Parse(to)
	if err != nil {
		return "", err
	}
	proxy, err := New(context.Background(), u.Host)
	if err != nil {
		return "", err
	}
	proxy.dropCancels()
	u.Host = proxy.Addr()
	return u.String(), nil
})

// cancelRequest is the code by which a connection's first message to PostgreSQL, after its length,
// asks for another connection's statement to be cancelled (PostgreSQL, "Message Formats").
const cancelRequest = 80877102

// maxOpening is the length in bytes up to which PostgreSQL takes a first message.
const maxOpening = 10_000

// dropCancels lets no request to cancel a statement through, from now on.
func (p *Proxy) dropCancels() { p.dropsCancels.Store(true) }

// opening reads a connection's first message, if it matters, and whole: PgBouncer refuses a part of
// it. ok is false if the connection ended before, or if it is to be dropped.
func (p *Proxy) opening(client net.Conn) (first []byte, ok bool) {
	if !p.dropsCancels.Load() {
		return nil, true
	}
	head := make([]byte, 8) // length of the whole message, code
	if _, err := io.ReadFull(client, head); err != nil {
		return nil, false
	}
	length := binary.BigEndian.Uint32(head)
	if length < 8 || length > maxOpening || binary.BigEndian.Uint32(head[4:]) == cancelRequest {
		return nil, false
	}
	first = append(head, make([]byte, length-8)...)
	_, err := io.ReadFull(client, first[8:])
	return first, err == nil
}
