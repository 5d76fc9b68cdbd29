package pgstore

import (
	"context"
	"database/sql"
	"errors"
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

	probeInterval  = 30 * time.Second // a connection that was silent for this long is probed
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

// errNoServer is reported once if the relays of a store have no connection to listen on.
var errNoServer = errors.New("the driver does not say where its server is; without Config.ListenURL the commits of others are found at the next poll")

// sqlConnector opens connections with the settings of those of db, if they are of pgx's stdlib
// package. It takes one of them for a moment to read the settings.
func sqlConnector(db *sql.DB) connector {
	return func(ctx context.Context) (*pgx.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, listenTimeout)
		defer cancel()
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		var cfg *pgx.ConnConfig
		err = conn.Raw(func(driverConn any) error {
			of, ok := driverConn.(interface{ Conn() *pgx.Conn })
			if !ok {
				return errNoServer
			}
			cfg = of.Conn().Config()
			return nil
		})
		if err != nil {
			return nil, err
		}
		_ = conn.Close() // db may have no other
		return connect(ctx, cfg)
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

// listener receives notifications on a separate connection, for as long as it has users, and passes
// them to the sleeper.
type listener struct {
	connect connector
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
	if l.users > 1 {
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
// did not last. It ends if there is nothing to connect to.
func (l *listener) run(ctx context.Context) {
	for pause := minListenPause; ; pause = min(2*pause, maxListenPause) {
		began := time.Now()
		err := loop.Protect(func() error { return l.listen(ctx) })
		if ctx.Err() != nil {
			l.sleeper.lost(nil)
			return
		}
		l.sleeper.lost(fmt.Errorf("listen for commits: %w", err))
		if errors.Is(err, errNoServer) {
			return
		}
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
			if _, err := conn.Exec(ctx, l.sql.Withdraw); err != nil {
				return err
			}
		}
	}
}

// nextNotification waits for a notification, and from time to time probes the connection: a peer
// that vanished does not say so.
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
