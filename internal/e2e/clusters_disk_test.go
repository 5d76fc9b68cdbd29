//go:build linux

package e2e

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill/internal/testtools/ownserver"
)

// TestCluster_PostgresDiskFull takes the room on the database's disk away: PostgreSQL refuses what needs more of it, or ends.
// Everything waits, and goes on when there is room; nothing is lost, and no message is dead-lettered.
//
//test:cluster
func TestCluster_PostgresDiskFull(t *testing.T) {
	disk := ownserver.NewDisk(t, "600")
	port := ownserver.FreePorts(t, 1)[0]
	server := ownserver.NewPostgres(t, disk.Dir, port, "max_wal_size=64MB", "min_wal_size=32MB", "dynamic_shared_memory_type=mmap")
	server.InitPostgres()
	server.Start()
	url := "postgres://postgres@127.0.0.1:" + port + "/postgres?sslmode=disable&connect_timeout=5"
	eventually(t, "PostgreSQL answers", func() bool { return answers(t, url) })
	w := newWorldAt(t, url, session{})
	w.exec(t, "CREATE TABLE "+w.table("ballast")+" (line text)")
	cluster{waits: true, hurt: func(rng *rand.Rand) string {
		disk.Fill()
		if rng.IntN(2) == 0 { // no room for its log either
			w.refuses(t, server, "SELECT pg_create_restore_point('more'), pg_switch_wal()")
		} else {
			w.refuses(t, server, "INSERT INTO "+w.table("ballast")+" SELECT repeat(md5(n::text), 100) FROM generate_series(1, 1000) n")
		}
		if server.Ended() {
			return "disk full, server ended"
		}
		return "disk full"
	}, mend: func() {
		disk.Free()
		eventually(t, "PostgreSQL answers", func() bool {
			if server.Ended() {
				server.Back()
			}
			return answers(t, url)
		})
		w.pool.Reset()
		w.exec(t, "TRUNCATE "+w.table("ballast"))
	}}.tellOf(t, w, newBroker(t, "rabbit"))
}

// refuses returns when a full PostgreSQL has ended, or refused many times what needs room, or each connection.
func (w *world) refuses(t *testing.T, server *ownserver.Server, sql string) {
	t.Helper()
	n := 0
	eventually(t, "PostgreSQL has no room", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), unreached)
		defer cancel()
		if _, err := w.pool.Exec(ctx, sql); err != nil {
			n++
		}
		return n == 100 || server.Ended()
	})
}

// answers reports whether a PostgreSQL server takes commands.
func answers(t *testing.T, url string) bool {
	ctx, cancel := context.WithTimeout(t.Context(), unreached)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return false
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx) == nil
}
