package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"runtime"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// prefix begins the names of everything that a run creates on the servers.
const prefix = "waybill_bench_"

// bench is one run: the servers, and its settings.
type bench struct {
	settings
	admin        *pgxpool.Pool
	lock         *pgxpool.Conn // a session that locks the names in use
	surroundings string        // a line about machine and versions
}

// newBench connects, and removes what an interrupted run has left.
func newBench(ctx context.Context, s settings) (*bench, error) {
	pool, err := pgxpool.New(ctx, s.postgres)
	if err != nil {
		return nil, err
	}
	b := &bench{settings: s, admin: pool}
	if b.lock, err = pool.Acquire(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	if err := b.removeLeftovers(ctx); err != nil {
		b.close()
		return nil, err
	}
	b.surroundings, err = b.describe(ctx)
	if err != nil {
		b.close()
	}
	return b, err
}

func (b *bench) close() {
	b.lock.Release()
	b.admin.Close()
}

// describe returns what the figures depend on, without anything private about the machine.
func (b *bench) describe(ctx context.Context) (string, error) {
	var postgres string
	if err := b.admin.QueryRow(ctx, "SELECT split_part(current_setting('server_version'), ' ', 1)").Scan(&postgres); err != nil {
		return "", err
	}
	size := ""
	if b.quick {
		size = ", quick sizes that mean nothing"
	}
	return fmt.Sprintf("%d CPUs for everything together, %s/%s, %s, PostgreSQL %s%s%s; backlog %s messages of %d bytes, %d keys, %d repeats%s",
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), postgres,
		versionOf(", NATS ", b.destination(toNATS)), versionOf(", RabbitMQ ", b.destination(toRabbit)),
		number(float64(b.messages)), b.payload, b.keys, b.repeats, size), nil
}

// versionOf returns the version of a broker behind a label, or nothing if it does not answer:
// not every experiment needs it.
func versionOf(label string, d destination) string {
	v, err := d.version()
	if err != nil {
		return ""
	}
	return label + v
}

func newName() string { return fmt.Sprintf("%s%08x", prefix, rand.Uint32()) }

// take locks a name, so that no other run treats objects of that name as leftovers. It
// reports whether the name was free.
func (b *bench) take(ctx context.Context, name string) (ok bool, err error) {
	err = b.lock.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtext($1))", name).Scan(&ok)
	return ok, err
}

func (b *bench) giveBack(name string) {
	// The lock ends with the session in any case.
	_, _ = b.lock.Exec(context.Background(), "SELECT pg_advisory_unlock(hashtext($1))", name)
}

// removeLeftovers drops the databases, streams and queues of runs that were interrupted.
func (b *bench) removeLeftovers(ctx context.Context) error {
	rows, err := b.admin.Query(ctx, "SELECT datname FROM pg_database WHERE starts_with(datname, $1)", prefix)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		free, err := b.take(ctx, name)
		if err != nil {
			return err
		}
		if free {
			b.drop(name)
		}
	}
	return nil
}

// drop removes everything with a name and releases the name.
func (b *bench) drop(name string) {
	for _, kind := range []string{toNATS, toRabbit, toRedis} {
		d := b.destination(kind)
		d.Name = name
		d.remove()
	}
	// What is left will be found by the next run.
	_, _ = b.admin.Exec(context.Background(), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	b.giveBack(name)
}

// databaseURL returns the URL of another database of the same server.
func databaseURL(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("-postgres is no URL such as postgres://user@host:5432/database")
	}
	u.Path = "/" + name
	return u.String(), nil
}

// hostOf returns host:port of a server's URL.
func hostOf(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Port() == "" {
		return "", fmt.Errorf("a server's URL needs host and port")
	}
	return u.Host, nil
}

// through returns the URL with another address in it.
func through(server, address string) string {
	host, err := hostOf(server)
	if err != nil {
		return server
	}
	return strings.Replace(server, host, address, 1)
}
