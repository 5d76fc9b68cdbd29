package opener

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Route is what is between a process and PostgreSQL.
type Route struct {
	// Pooled says that transactions of one connection run in different sessions of the server:
	// a pooler assigns sessions per transaction.
	Pooled bool

	// LosesPrepared says that a statement that was prepared in one of them is unknown in the
	// next, and that connections prepare statements.
	LosesPrepared bool

	// Deaf says that a notification does not arrive where relays listen.
	Deaf bool
}

// routePatience bounds each step that may never end on a route that is not direct.
const routePatience = 2 * time.Second

// Route finds out what is between this process and the server, with two connections as the
// pool opens them and one as relays listen on. Nothing is stored; a separate channel is
// notified once.
func (p *postgres) Route(ctx context.Context) (route Route, err error) {
	one, err := pgx.ConnectConfig(ctx, p.pool.Config().ConnConfig)
	if err != nil {
		return route, err
	}
	defer closeConn(one)
	two, err := pgx.ConnectConfig(ctx, p.pool.Config().ConnConfig)
	if err != nil {
		return route, err
	}
	defer closeConn(two)
	if route.Pooled, route.LosesPrepared, err = shares(ctx, one, two); err != nil {
		return route, err
	}
	route.Deaf, err = p.isDeaf(ctx, two)
	return route, err
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it may be gone already
}

const sessionIDSQL = `SELECT pg_backend_pid()`

// shares reports whether two connections get the same session alternately: one uses it, the
// other keeps it for a transaction, and the first then gets another one, or none.
func shares(ctx context.Context, one, two *pgx.Conn) (pooled, losesPrepared bool, err error) {
	statement := "waybill_doctor_" + strings.ToLower(rand.Text()[:12])
	prepares := one.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement
	if prepares {
		if _, err := one.Prepare(ctx, statement, sessionIDSQL); err != nil {
			return false, false, err
		}
		defer one.Deallocate(context.WithoutCancel(ctx), statement) // gone with its session
	}
	before, err := sessionID(ctx, one)
	if err != nil {
		return false, false, err
	}
	tx, err := two.Begin(ctx)
	if err != nil {
		return false, false, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) // it has written nothing
	other, err := sessionID(ctx, two)
	if err != nil {
		return false, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, routePatience)
	defer cancel()
	after, err := sessionID(ctx, one)
	switch {
	case pgconn.Timeout(err):
		return true, prepares, nil // the only session is taken
	case err != nil:
		return false, false, err
	case other != before && after == before:
		return false, false, nil
	case !prepares:
		return true, false, nil
	}
	return true, isUnknown(one.QueryRow(ctx, statement).Scan(&after)), nil
}

// sessionID queries without preparing a statement.
func sessionID(ctx context.Context, conn *pgx.Conn) (pid int, err error) {
	err = conn.QueryRow(ctx, sessionIDSQL, pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid, err
}

// unknownStatement is the server's code for a prepared statement that it does not know.
const unknownStatement = "26000"

func isUnknown(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == unknownStatement
}

// isDeaf notifies through conn, and listens as relays do.
func (p *postgres) isDeaf(ctx context.Context, conn *pgx.Conn) (bool, error) {
	cfg := p.pool.Config().ConnConfig
	if p.listenURL != "" {
		var err error
		if cfg, err = pgx.ParseConfig(p.listenURL); err != nil {
			return false, badURL("postgres.listen_url", p.listenURL, err)
		}
	}
	cfg.OnNotification = nil
	ear, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return false, fmt.Errorf("connect to listen: %w", err)
	}
	defer closeConn(ear)
	channel := "waybill_doctor_" + strings.ToLower(rand.Text()[:12])
	if _, err := ear.Exec(ctx, "LISTEN "+channel); err != nil {
		return false, fmt.Errorf("listen: %w", err)
	}
	if _, err := conn.Exec(ctx, `SELECT pg_notify($1, '')`, pgx.QueryExecModeSimpleProtocol, channel); err != nil {
		return false, fmt.Errorf("notify: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, routePatience)
	defer cancel()
	_, err = ear.WaitForNotification(ctx)
	if pgconn.Timeout(err) {
		return true, nil
	}
	return false, err
}
