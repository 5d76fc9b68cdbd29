//go:build unix

package ownserver

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Postgres starts a PostgreSQL server with settings such as "fsync=off" and returns its URL. What a test does there,
// such as holding back every vacuum, disturbs no other test.
func Postgres(t *testing.T, settings ...string) (url string) {
	t.Helper()
	port := FreePorts(t, 1)[0]
	s := NewPostgres(t, "", port, append(settings, "fsync=off")...)
	s.InitPostgres()
	s.Start()
	return AwaitPostgres(t, port)
}

// AwaitPostgres waits until the server of a port answers, and returns its URL.
func AwaitPostgres(t *testing.T, port string) (url string) {
	t.Helper()
	ready := PostgresProgram(t, "pg_isready")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for exec.CommandContext(t.Context(), ready, "-q", "-h", "127.0.0.1", "-p", port).Run() != nil {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the test's own PostgreSQL server does not answer")
		}
	}
	return "postgres://postgres@127.0.0.1:" + port + "/postgres?sslmode=disable"
}

// NewPostgres returns a PostgreSQL server, whose database system [Server.InitPostgres] creates. dir is that of
// [New].
func NewPostgres(t *testing.T, dir, port string, settings ...string) *Server {
	t.Helper()
	program := PostgresProgram(t, "postgres")
	s := New(t, dir, "postgres", func(dir string) *exec.Cmd {
		cmd := exec.Command(program, "-D", filepath.Join(dir, "data"), "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
		for _, s := range settings {
			cmd.Args = append(cmd.Args, "-c", s)
		}
		return cmd
	})
	t.Cleanup(s.Stop) // a killed server leaves a shared memory segment
	return s
}

// InitPostgres creates an empty database system for the user postgres, who needs no password.
func (s *Server) InitPostgres() {
	s.t.Helper()
	s.Run(PostgresProgram(s.t, "initdb"), "-D", filepath.Join(s.Dir, "data"), "-U", "postgres", "-A", "trust", "--no-sync")
}

// PostgresProgram finds a program of the server where distribution packages install it, or else in the PATH.
func PostgresProgram(t *testing.T, name string) string {
	t.Helper()
	if found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); err == nil && len(found) > 0 {
		return slices.Max(found)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("PostgreSQL's %s is not installed, run \"make services\": %v", name, err)
	}
	return path
}
