package main

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test binary a child with a job, as main does.
func TestMain(m *testing.M) {
	if text := os.Getenv(jobVariable); text != "" {
		os.Exit(runJob(text))
	}
	os.Exit(m.Run())
}

// openTestBench needs PostgreSQL.
func openTestBench(t *testing.T) *bench {
	t.Helper()
	s, _, err := parse([]string{"-quick", "-n", "2000"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBench(t.Context(), s)
	if err != nil {
		t.Fatalf("%v (scripts/services.sh up starts the servers)", err)
	}
	t.Cleanup(b.close)
	return b
}

func TestDrain(t *testing.T) {
	t.Parallel()
	b := openTestBench(t)
	for _, c := range append([]contender{floor()}, relays()...) {
		d, err := b.drainOnce(t.Context(), c, b.destination(toNothing), b.postgres)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if d.rate <= 0 || d.statements <= 0 || d.wal <= 0 {
			t.Errorf("%s: %+v, want rate, statements and WAL above 0", c.name, d)
		}
	}
}

func TestDrain_WrongCount(t *testing.T) {
	t.Parallel()
	b := openTestBench(t)
	err := b.inWorld(t.Context(), func(w *world) error {
		if err := w.fill(t.Context(), 300); err != nil {
			return err
		}
		j := job{Role: "relay", Messages: 299} // one more is there, and will be sent
		_, err := w.drain(t.Context(), j, b.destination(toNothing), b.postgres)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "holds 300 messages, want 299") {
		t.Errorf("drain() = %v, want that the counts differ", err)
	}
}

// TestStatementsPerMessage: a saga asks the database no more often than what is written by hand.
func TestStatementsPerMessage(t *testing.T) {
	t.Parallel()
	err := openTestBench(t).inWorld(t.Context(), func(w *world) error {
		if err := w.exec(t.Context(), tradesSQL); err != nil {
			return err
		}
		sent, err := w.statementsPerMessage(t.Context())
		for i, n := range sent {
			if n != sent[0] {
				t.Errorf("kind %d sends %v statements per message, want %v, as by hand", i, n, sent[0])
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLeftovers(t *testing.T) {
	t.Parallel()
	b := openTestBench(t)
	exists := func(name string) (is bool) {
		t.Helper()
		if err := b.admin.QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", name).Scan(&is); err != nil {
			t.Fatal(err)
		}
		return is
	}
	used, err := b.newWorld(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer used.close()
	left := newName() // as of a run that was killed: its lock has gone with its session
	if _, err := b.admin.Exec(t.Context(), "CREATE DATABASE "+left+" TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	other := openTestBench(t) // removes what is left
	if exists(left) {
		t.Errorf("the database of an interrupted run is still there")
	}
	if !exists(used.name) {
		t.Errorf("the database of a run that goes on has been dropped")
	}
	_ = other
}

func TestChild_Fails(t *testing.T) {
	t.Parallel()
	_, err := spawn(t.Context(), job{Role: "nobody"})
	if err == nil || !strings.Contains(err.Error(), `no such role: "nobody"`) {
		t.Errorf("spawn() = %v, want the child's own error", err)
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() { // an echo
		conn, err := server.Accept()
		if err != nil {
			return
		}
		_, _ = io.Copy(conn, conn)
		_ = conn.Close()
	}()
	const delay = 20 * time.Millisecond
	p, err := newProxy(server.Addr().String(), delay)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	conn, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	// Four megabytes take one delay, not one for each piece that is read: only time is added.
	const pieces, size = 100, 40_000
	began := time.Now()
	go func() {
		for range pieces {
			_, _ = conn.Write(make([]byte, size)) // a failure shows below
		}
	}()
	if _, err := io.ReadFull(conn, make([]byte, pieces*size)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < delay || took > pieces*delay/2 {
		t.Errorf("%d pieces took %v, want a little more than %v", pieces, took, delay)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"-only drain,nonsense", `no experiment "nonsense"`},
		{"-n -1", "-n, -repeats, -records and -payload must be at least 1"},
		{"-keys 1", "-keys at least 2"},
	} {
		if _, _, err := parse(strings.Fields(c.args), io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("parse(%q) = %v, want %q", c.args, err, c.want)
		}
	}
	_, chosen, err := parse([]string{"-only", "writers,drain"}, io.Discard)
	if err != nil || len(chosen) != 2 || chosen[0].name != "drain" || chosen[1].name != "writers" {
		t.Errorf("parse(-only writers,drain) = %v, %v, want drain and writers", chosen, err)
	}
}
