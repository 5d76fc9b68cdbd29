//go:build unix

package soak

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
)

// system is a whole system in a directory: a database, a broker, and two processes of each role.
type system struct {
	t        *testing.T
	dir      string
	postgres bool          // with RabbitMQ; else MariaDB with NATS
	galera   *galera       // several MariaDB, of which database is the proxy; nil for one
	disk     string        // where one MariaDB is; "" for dir
	settings []string      // of one MariaDB
	handlers time.Duration // their HandlerTimeout; 0 for the default
	state    state

	database, broker *ownserver.Server
	db               *sql.DB
	store            opener.SQLStore
	parts            []*part
	errors           *os.File // what processes write to their standard error
}

// state is what a system remembers from one run to the next, besides what its servers do.
type state struct {
	Ports         []string // of the database, the broker, and the broker's tools
	Seconds       int      // of all runs
	Interruptions map[string]int
	Audit         audit // of the stream, if the broker is NATS
}

// part is a place for a process, with ways of its own to database and broker.
type part struct {
	settings   child
	db, broker *faultproxy.Proxy
	cmd        *exec.Cmd // nil while there is none
	stdin      io.Closer
}

// begin starts servers and processes; backlog is how many orders may wait for their effect before producers rest.
func (s *system) begin(backlog int) {
	s.t.Helper()
	for _, d := range []string{"database", "broker"} {
		must(s.t, os.MkdirAll(filepath.Join(s.dir, d), 0o755))
	}
	s.load()
	var err error
	s.errors, err = os.OpenFile(filepath.Join(s.dir, "errors"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(s.t, err)
	s.t.Cleanup(func() { s.errors.Close() })
	s.startDatabase()
	s.startBroker()
	s.prepare()
	for _, role := range []string{"producer", "relay", "consumer"} {
		for slot := range 2 {
			p := &part{settings: child{Role: role, Slot: slot, Rabbit: s.postgres, Backlog: backlog, HandlerTimeout: s.handlers}}
			p.db, p.settings.Store = through(s.t, s.storeURL(), s.state.Ports[0])
			p.broker, p.settings.Broker = through(s.t, s.brokerURL(), s.state.Ports[1])
			s.parts = append(s.parts, p)
			s.start(p)
		}
	}
	s.t.Cleanup(s.killAll)
}

// through returns a proxy for a server, and the URL that leads through it.
func through(t *testing.T, url, port string) (*faultproxy.Proxy, string) {
	t.Helper()
	p, err := faultproxy.New(context.Background(), "127.0.0.1:"+port)
	must(t, err)
	t.Cleanup(p.Close)
	return p, strings.Replace(url, "127.0.0.1:"+port, p.Addr(), 1)
}

func (s *system) storeURL() string {
	if s.postgres {
		return "postgres://postgres@127.0.0.1:" + s.state.Ports[0] + "/postgres?sslmode=disable"
	}
	url := "mysql://root@127.0.0.1:" + s.state.Ports[0] + "/soak"
	if s.galera != nil {
		url += "?wsrep_sync_wait=1" // docs/clusters.md says why
	}
	return url
}

func (s *system) brokerURL() string {
	if s.postgres {
		return "amqp://guest:guest@127.0.0.1:" + s.state.Ports[1] + "/"
	}
	return "nats://127.0.0.1:" + s.state.Ports[1]
}

func (s *system) load() {
	text, err := os.ReadFile(filepath.Join(s.dir, "state.json"))
	if err == nil {
		err = json.Unmarshal(text, &s.state)
	}
	if os.IsNotExist(err) {
		s.state, err = state{Ports: ownserver.FreePorts(s.t, 3), Interruptions: make(map[string]int), Audit: audit{Last: make(map[int]int)}}, nil
	}
	must(s.t, err)
	s.save()
}

func (s *system) save() {
	text, err := json.Marshal(s.state)
	must(s.t, err)
	next := filepath.Join(s.dir, "state.next")
	must(s.t, os.WriteFile(next, text, 0o600))
	must(s.t, os.Rename(next, filepath.Join(s.dir, "state.json")))
}

// startDatabase starts it where it has stopped, or on nothing.
func (s *system) startDatabase() {
	dir, port := cmp.Or(s.disk, filepath.Join(s.dir, "database")), s.state.Ports[0]
	_, err := os.Stat(filepath.Join(dir, "data"))
	isNew := os.IsNotExist(err)
	switch {
	case s.galera != nil:
		s.galera.start()
		s.database = s.galera.proxy(port)
	case s.postgres:
		s.database = ownserver.NewPostgres(s.t, dir, port)
		if isNew {
			s.database.InitPostgres()
		}
	default:
		first := filepath.Join(dir, "first.sql")
		must(s.t, os.WriteFile(first, []byte("CREATE DATABASE IF NOT EXISTS soak;\n"), 0o644))
		s.database = ownserver.NewMariaDB(s.t, dir, port, append(s.settings, "--init-file="+first)...)
		if isNew {
			s.database.InitMariaDB()
		}
	}
	s.database.Start()
}

// startBroker does the same for the broker.
func (s *system) startBroker() {
	dir, ports := filepath.Join(s.dir, "broker"), s.state.Ports
	if s.postgres {
		s.broker = ownserver.NewRabbitMQ(s.t, []string{dir}, []ownserver.RabbitPorts{{Clients: ports[1], Nodes: ports[2]}})[0]
	} else {
		s.broker = ownserver.New(s.t, dir, "", func(dir string) *exec.Cmd {
			return exec.Command("nats-server", "-a", "127.0.0.1", "-p", ports[1], "-js", "-sd", filepath.Join(dir, "data"))
		})
	}
	s.broker.Start()
}

// prepare makes what is not there yet: our tables, those of the ledger, and the queue that billing receives from.
func (s *system) prepare() {
	ctx := s.t.Context()
	var err error
	s.db, s.store, err = openStore(ctx, s.storeURL())
	must(s.t, err)
	s.t.Cleanup(func() { s.db.Close() })
	_, err = s.store.Migrate(ctx, "soak", 0)
	must(s.t, err)
	must(s.t, ledger{s.db}.create(ctx, "CREATE TABLE IF NOT EXISTS", s.postgres))
	c := child{Broker: s.brokerURL(), Rabbit: s.postgres}
	b, err := c.open(ctx)
	must(s.t, err)
	if rabbit, ok := b.(*rabbitbroker.Broker); ok {
		must(s.t, patiently(ctx, func() error { return rabbit.Declare(ctx, billing) }))
	}
	must(s.t, b.(io.Closer).Close())
}

func (s *system) start(p *part) {
	settings, err := json.Marshal(p.settings)
	must(s.t, err)
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), childEnv+"="+string(settings)), s.errors
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is for us
	p.stdin, err = p.cmd.StdinPipe()
	must(s.t, err)
	must(s.t, p.cmd.Start())
}

func (p *part) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // reports the signal
	p.stdin.Close()
	p.cmd = nil
}

func (s *system) killAll() {
	for _, p := range s.parts {
		p.kill()
	}
}

// memory is the resident memory of a process in MiB, where the system has /proc.
func (p *part) memory() (mib int) {
	if p.cmd == nil {
		return 0
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)) // it may have ended
	if _, rest, found := bytes.Cut(text, []byte("VmRSS:")); found {
		_, _ = fmt.Sscan(string(rest), &mib)
	}
	return mib >> 10
}

// tables returns the size of our tables in MiB and, on PostgreSQL, how many dead rows they have.
func (s *system) tables(ctx context.Context) (mib, dead int, err error) {
	ctx, cancel := context.WithTimeout(ctx, unanswered)
	defer cancel()
	query := "SELECT COALESCE(SUM(data_length + index_length), 0) DIV 1048576, 0 FROM information_schema.tables WHERE table_schema = 'soak' AND table_name LIKE 'waybill%'"
	if s.postgres {
		query = "SELECT COALESCE(SUM(pg_total_relation_size(relid)), 0)::bigint >> 20, COALESCE(SUM(n_dead_tup), 0)::bigint FROM pg_stat_user_tables WHERE relname NOT IN ('orders', 'effects', 'sent', 'done')" // which are in the same schema
	}
	err = s.db.QueryRowContext(ctx, query).Scan(&mib, &dead)
	return mib, dead, err
}

// deadLetters returns how many there are, of a hundred at most.
func (s *system) deadLetters(ctx context.Context) (int, error) {
	list, err := s.store.DeadLetters(ctx, deadletter.Filter{})
	return len(list), err
}
