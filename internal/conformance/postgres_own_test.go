package conformance

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// ownPostgres starts a server with the given settings for one test and returns its URL. What
// a test does there, such as holding back every vacuum, disturbs no other test.
func ownPostgres(t *testing.T, settings ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "waybill-postgres")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, port, who := filepath.Join(dir, "data"), freePort(t), serverUser(t, dir)
	initdb := exec.Command(serverBinary(t, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = who, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	args := []string{"-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	server := exec.Command(serverBinary(t, "postgres"), args...)
	server.SysProcAttr, server.Dir = who, dir
	must(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT) // it may have ended
		_ = server.Wait()                         // by that signal
	})
	url := "postgres://postgres@127.0.0.1:" + port + "/postgres?sslmode=disable"
	waitFor(t, "the server answers", func() bool {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return false
		}
		return conn.Close(context.Background()) == nil
	})
	return url
}

// serverBinary finds a program of the server where the packages of systems put it.
func serverBinary(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	must(t, err)
	if len(found) > 0 {
		return slices.Max(found)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("PostgreSQL's %s is not installed (%v); install it with: make services", name, err)
	}
	return path
}

// serverUser returns who the server runs as: it refuses to run as root. The directory
// becomes that user's.
func serverUser(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	must(t, err)
	uid, err := strconv.Atoi(u.Uid)
	must(t, err)
	gid, err := strconv.Atoi(u.Gid)
	must(t, err)
	must(t, os.Chown(dir, uid, gid))
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}
