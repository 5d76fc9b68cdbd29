package pgstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/internal/redact"
)

const (
	withdrawnPayload = "withdrawn" // of the notification that follows a withdrawal; writers send none

	probeInterval  = 30 * time.Second // a connection that was silent for so long is asked whether it lives
	listenTimeout  = 5 * time.Second  // for what is asked of the server
	minListenPause = 100 * time.Millisecond
	maxListenPause = 5 * time.Second
)

// connector opens a connection.
type connector func(ctx context.Context) (*pgx.Conn, error)

// poolConnector opens connections as pool does, but outside of it.
func poolConnector(pool *pgxpool.Pool) connector {
	return func(ctx context.Context) (*pgx.Conn, error) {
		cfg := pool.Config()
		if cfg.BeforeConnect != nil {
			if err := cfg.BeforeConnect(ctx, cfg.ConnConfig); err != nil {
				return nil, err
			}
		}
		conn, err := connect(ctx, cfg.ConnConfig)
		if err == nil && cfg.AfterConnect != nil {
			if err = cfg.AfterConnect(ctx, conn); err != nil {
				closeConn(conn)
			}
		}
		return conn, err
	}
}

// urlConnector opens connections to a server of its own choice. The error does not repeat
// the string, which may hold a password.
func urlConnector(url string) (connector, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil || redact.Misplaced(url) {
		return nil, &waybill.InvalidError{Field: "ListenURL", Reason: "is no connection string of PostgreSQL"}
	}
	return func(ctx context.Context) (*pgx.Conn, error) { return connect(ctx, cfg.Copy()) }, nil
}

// connect leaves notifications to the connection itself, for WaitForNotification.
func connect(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	cfg.OnNotification = nil
	return pgx.ConnectConfig(ctx, cfg)
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it may be gone already
}

// listener hears notifications on a connection of its own, for as long as it has users. It
// tells the sleeper.
type listener struct {
	connect connector // nil if there is nothing to connect to
	sql     statements
	channel string
	sleeper *sleeper

	mu    sync.Mutex
	users int
	stop  func() // ends the goroutine and waits for its end
}

// add counts a user; the first starts the goroutine.
func (l *listener) add() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
	if l.users > 1 || l.connect == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run(ctx)
	}()
	l.stop = func() {
		cancel()
		<-ended
	}
}

// remove is the opposite of add; the last stops the goroutine.
func (l *listener) remove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	if l.users == 0 && l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

// run listens until ctx is done, with pauses that double up to 5 s between connections that
// did not last.
func (l *listener) run(ctx context.Context) {
	for pause := minListenPause; ; pause = min(2*pause, maxListenPause) {
		began := time.Now()
		err := loop.Protect(func() error { return l.listen(ctx) })
		if ctx.Err() != nil {
			l.sleeper.lost(nil)
			return
		}
		l.sleeper.lost(fmt.Errorf("listen for commits: %w", err))
		if time.Since(began) > maxListenPause {
			pause = minListenPause
		}
		loop.Sleep(ctx, pause)
	}
}

// listen connects and passes on what it hears until the connection is lost.
func (l *listener) listen(ctx context.Context) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	if _, err := conn.Exec(ctx, "LISTEN "+l.channel); err != nil {
		return err
	}
	l.sleeper.connected()
	for {
		n, err := nextNotification(ctx, conn)
		if err != nil {
			return err
		}
		if n.Payload == withdrawnPayload {
			l.sleeper.withdraw(time.Now())
			continue
		}
		if l.sleeper.wake(time.Now()) {
			if _, err := conn.Exec(ctx, l.sql.withdraw); err != nil {
				return err
			}
		}
	}
}

// nextNotification waits for a notification, and from time to time asks whether the
// connection lives: a peer that vanished does not say so.
func nextNotification(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	for {
		call, cancel := context.WithTimeout(ctx, probeInterval)
		n, err := conn.WaitForNotification(call)
		cancel()
		if err == nil || ctx.Err() != nil || !pgconn.Timeout(err) {
			return n, err
		}
		call, cancel = context.WithTimeout(ctx, listenTimeout)
		err = conn.Ping(call)
		cancel()
		if err != nil {
			return nil, err
		}
	}
}
