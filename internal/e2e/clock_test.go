package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
)

// The stories of clocks move the wall clock of one process, or of a database, while a whole system is at work. "make soak"
// runs them.

// clockLease is longer than any stall of a busy machine, and shorter than the jump of a clock: a lease that ends in a
// story has ended by a jump.
const clockLease = time.Minute

const clockJump = time.Hour

// clockSettings are those of clockshop.
type clockSettings struct {
	Role, Node         string
	DSN, Schema        string
	BrokerURL, Name    string
	Group              string
	Ahead              time.Duration
	LeaseTTL           time.Duration
	StoreTimeout, Work time.Duration
}

// buildClock builds clockshop with a wall clock that can be moved: all else, and the monotonic clock, is that of
// the toolchain.
func buildClock(t *testing.T) (program string) {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: filepath.Join(dir, "time.go")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"time.go": movable(t, source), "overlay.json": overlay} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program = filepath.Join(dir, "clockshop")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", "movable", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./clockshop")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// movable returns the source of package time with a wall clock that can be moved.
func movable(t *testing.T, source []byte) []byte {
	t.Helper()
	for _, change := range []struct{ from, to string }{
		{"\t\"math/bits\"\n", "\t\"math/bits\"\n\t\"sync/atomic\"\n"},
		{"sec, nsec, mono := runtimeNow()\n", "sec, nsec, mono := runtimeNow()\n\tsec += moved.Load()\n"},
	} {
		if n := bytes.Count(source, []byte(change.from)); n != 1 {
			t.Fatalf("package time of %s has %q %d times, want once", runtime.Version(), change.from, n)
		}
		source = bytes.Replace(source, []byte(change.from), []byte(change.to), 1)
	}
	return append(source, `
var moved atomic.Int64 // seconds

// MoveClock moves the wall clock.
func MoveClock(by Duration) { moved.Add(int64(by / Second)) }
`...)
}

// clockShop is a shop with two processes of each kind, one of which has its clock moved.
type clockShop struct {
	*world
	broker  brokerSettings
	program string
	lease   time.Duration // of lanes and keys

	nodes     int
	producers []*clockProcess
}

func newClockShop(t *testing.T, w *world) *clockShop {
	t.Helper()
	s := &clockShop{world: w, broker: newBroker(t, "rabbit"), program: buildClock(t), lease: clockLease}
	w.exec(t, "ALTER TABLE "+w.table("orders")+" ADD COLUMN due timestamptz NOT NULL")
	w.exec(t, "CREATE TABLE "+w.table("leased_effects")+" (message_id text, at timestamptz DEFAULT clock_timestamp())")
	b := s.broker.connect(t)
	for _, group := range []string{"consumer", "leased"} {
		s.broker.subscribe(t, b, group, "orders")
	}
	return s
}

// clockProcess is a process of clockshop.
type clockProcess struct {
	*process
	clock io.WriteCloser
	node  string
	ahead time.Duration // of its clock
}

// start starts a process; the zero settings are those of all.
func (s *clockShop) start(t *testing.T, c clockSettings) *clockProcess {
	t.Helper()
	s.nodes++
	c.Node, c.Schema, c.BrokerURL, c.Name = fmt.Sprintf("%s-%d", c.Role, s.nodes), s.schema, s.broker.URL, s.broker.Name
	c.Group = s.broker.group(c.Role)
	if c.LeaseTTL == 0 {
		c.LeaseTTL = s.lease
	}
	if c.DSN == "" {
		c.DSN = s.dsn
	}
	settings, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &clockProcess{process: &process{cmd: exec.Command(s.program, string(settings)), ended: make(chan struct{})}, node: c.Node}
	if p.clock, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = &p.errors
	p.launch(t)
	if c.Role == "producer" {
		s.producers = append(s.producers, p)
	}
	return p
}

// move moves the clock of the process, and waits until it has.
func (p *clockProcess) move(t *testing.T, by time.Duration) {
	t.Helper()
	before := p.count("clock")
	if _, err := fmt.Fprintln(p.clock, by); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the clock is moved", func() bool { return p.count("clock") > before })
	var shown, passed string
	for _, line := range p.said() {
		_, _ = fmt.Sscanf(line, "clock %s %s", &shown, &passed) // other lines are others
	}
	p.ahead += by
	at, err := time.Parse(time.RFC3339, shown)
	if err != nil || time.Until(at.Add(-p.ahead)).Abs() > clockJump/2 || passed != "0s" {
		t.Fatalf("the clock is at %s, and %s have passed meanwhile (%v), want %v ahead, and none", shown, passed, err, p.ahead)
	}
}

// count returns how many lines begin with a text.
func (p *clockProcess) count(text string) (n int) {
	for _, line := range p.said() {
		if strings.HasPrefix(line, text) {
			n++
		}
	}
	return n
}

// terminate asks the process to end.
func (p *clockProcess) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// works waits until the process has done some more.
func (p *clockProcess) works(t *testing.T) {
	t.Helper()
	before := p.count("done")
	eventually(t, p.node+" works", func() bool { return p.count("done") > before+5 })
}

// epochs is how often lanes have changed hands.
func (s *clockShop) epochs(t *testing.T) int {
	t.Helper()
	return s.number(t, "SELECT sum(epoch) FROM "+s.table("relay_lanes"))
}

// TestClock_Process moves the clock of one process of each kind by an hour, forward and back, while all are at work, and
// starts one of each in the year 2100. Nothing changes hands by that: what is leased stays leased, nothing is late by an
// hour, and nothing is early by the database's clock.
//
//test:clock
func TestClock_Process(t *testing.T) {
	s := newClockShop(t, plainWorld(t))
	var moved []*clockProcess
	for _, role := range []string{"relay", "producer", "consumer", "leased"} {
		s.start(t, clockSettings{Role: role})
		moved = append(moved, s.start(t, clockSettings{Role: role}))
	}
	eventually(t, "both relays have their lanes", func() bool { return len(s.owners(t)) == 2 && s.owners(t)[""] == 0 })
	before := s.epochs(t)
	for _, p := range moved {
		for _, by := range []time.Duration{clockJump, -clockJump, -clockJump, clockJump} {
			p.move(t, by)
			p.works(t)
			s.handlesMore(t)
		}
	}
	if after := s.epochs(t); after != before {
		t.Errorf("lanes have changed hands %d times while clocks of processes were moved, want never", after-before)
	}
	for _, p := range moved {
		s.stopWhileMoved(t, p)
		far := s.start(t, clockSettings{Role: strings.SplitN(p.node, "-", 2)[0], Ahead: 74 * 365 * 24 * time.Hour})
		far.works(t)
	}
	s.finish(t)
	s.wantOnTime(t)
}

// stopWhileMoved lets the clock jump while the process ends.
func (s *clockShop) stopWhileMoved(t *testing.T, p *clockProcess) {
	t.Helper()
	p.terminate(t)
	_, _ = fmt.Fprintf(p.clock, "%v\n%v\n", clockJump, -2*clockJump) // it may be too late
	p.wait(t, "ended: <nil>")
	if n := s.number(t, "SELECT count(*) FROM "+s.table("relay_lanes")+" WHERE owner = $1", p.node); n != 0 {
		t.Errorf("%d lanes are left to %s, which has ended, want none", n, p.node)
	}
}

// finish ends the producers and waits until every order has its effects, once each.
func (s *clockShop) finish(t *testing.T) {
	t.Helper()
	for _, p := range s.producers {
		p.kill()
	}
	eventually(t, "every order has its leased effect", func() bool {
		return s.number(t, "SELECT count(*) FROM "+s.table("orders")+" o WHERE NOT EXISTS (SELECT FROM "+s.table("leased_effects")+" e WHERE e.message_id = o.id)") == 0
	})
	s.checkSoak(t, &soak{})
	twice := "SELECT count(*) FROM (SELECT 1 FROM " + s.table("leased_effects") + " GROUP BY message_id HAVING count(*) > 1) d"
	if n := s.number(t, twice); n != 0 {
		t.Errorf("%d leased effects came twice, want none", n)
	}
}

// wantOnTime fails if an effect was early, or late by the jump of a clock, by the database's clock, which nobody has moved.
func (s *clockShop) wantOnTime(t *testing.T) {
	t.Helper()
	when := "SELECT count(*) FROM " + s.table("orders") + " o JOIN " + s.table("effects") + " e ON e.message_id = o.id WHERE "
	for what, condition := range map[string]string{"early": "e.at < o.due", "late by a jump": "e.at > o.due + interval '30 minutes'"} {
		if n := s.number(t, when+condition); n != 0 {
			t.Errorf("%d effects were %s, want none", n, what)
		}
	}
}

// TestClock_SilentStore lets the database fall silent for a consumer whose clock has gone back by an hour: it notices.
//
//test:clock
func TestClock_SilentStore(t *testing.T) {
	s := newClockShop(t, plainWorld(t))
	var proxied *world
	var proxy *faultproxy.Proxy
	proxied, proxy = s.behindProxy(t)
	for _, role := range []string{"producer", "relay"} {
		s.start(t, clockSettings{Role: role})
	}
	c := s.start(t, clockSettings{Role: "consumer", DSN: proxied.dsn, StoreTimeout: time.Second})
	c.works(t)
	c.move(t, -clockJump)
	proxy.Stall(true)
	eventually(t, "the consumer stops receiving", func() bool { return c.count("loop consumer "+s.broker.group("consumer")+" receive") > 0 })
	proxy.Stall(false)
	c.works(t)
}

// handlesMore is goesOn by no clock: it waits until there are more orders than now, and then more effects than that.
func (w *world) handlesMore(t *testing.T) {
	t.Helper()
	orders := patiently[int](t, w, "SELECT count(*) FROM "+w.table("orders"))
	for _, table := range []string{"orders", "effects"} {
		count := "SELECT count(*) FROM " + w.table(table)
		eventually(t, "there are more "+table, func() bool { return patiently[int](t, w, count) > orders })
	}
}
