//go:build unix

package soak

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
)

const (
	// pause is the mean time between two interruptions of a system.
	pause = 2 * time.Second
	// away is the mean time for which a process or server is away: some of them for longer than a relay's lease.
	away = 3 * time.Second
	// maxAway bounds it, far below retention.
	maxAway = 30 * time.Second
	// reports come this often.
	reportEvery = time.Minute
	// patience is how long nothing may move in the end.
	patience = 5 * time.Minute
	// afterwards is how long what the broker still delivers again may do harm: longer than its AckWait.
	afterwards = 40 * time.Second
)

// TestLongSoak runs two systems until they have committed the orders of $SOAK_MESSAGES together, all runs in $SOAK_DIR
// counted. Then every order must have one effect, nothing else any, and, where the documentation promises it, the
// effects of a key must be in order: on RabbitMQ with one active consumer, not on JetStream after a crash.
//
//test:long-soak
func TestLongSoak(t *testing.T) {
	dir := os.Getenv("SOAK_DIR")
	messages, err := strconv.Atoi(os.Getenv("SOAK_MESSAGES"))
	if dir == "" || err != nil {
		t.Fatal("SOAK_DIR and SOAK_MESSAGES are a directory and a number: make long-soak DIR=… MESSAGES=…")
	}
	dir, err = filepath.Abs(dir)
	must(t, err)
	must(t, os.MkdirAll(dir, 0o755))
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	logFile, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(t, err)
	t.Cleanup(func() { logFile.Close() })
	out := io.MultiWriter(os.Stdout, logFile)
	for _, of := range []struct {
		name, dir string
		postgres  bool
	}{{"PostgreSQL and RabbitMQ", "postgres-rabbitmq", true}, {"MariaDB and NATS", "mariadb-nats", false}} {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			say := log.New(out, of.name+": ", log.LstdFlags|log.Lmicroseconds|log.LUTC|log.Lmsgprefix)
			r := run{system: &system{t: t, dir: filepath.Join(dir, of.dir), postgres: of.postgres}, log: say}
			r.begin(maxBacklog)
			if !r.until(ctx, messages/2) || !r.finish(ctx) {
				say.Print("stopped; the same command goes on")
			}
			r.save()
		})
	}
}

// run is a system that is interrupted.
type run struct {
	*system
	log   *log.Logger
	hurts []hurt
}

// hurt is what lasts for a while.
type hurt struct {
	of    any // part or server, which are hurt in one way at a time
	until time.Time
	end   func()
}

// until interrupts the system until there are that many orders. It reports false if ctx has ended before.
func (r *run) until(ctx context.Context, orders int) bool {
	defer r.healAll()
	began, reported := time.Now(), time.Time{}
	before := r.state.Seconds
	for ctx.Err() == nil {
		r.heal(time.Now())
		r.interrupt()
		r.state.Seconds = before + int(time.Since(began).Seconds())
		if time.Since(reported) > reportEvery {
			reported = time.Now()
			r.report(ctx)
			_ = r.lookAtStream(ctx) // the broker may be away; what is missed is looked at the next time
			r.save()
		}
		if n, _, err := (ledger{r.db}).totals(ctx); err == nil && n >= orders {
			return true
		}
		loop.Sleep(ctx, span(2*pause))
	}
	return false
}

// span draws a time up to a limit.
func span(limit time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(limit))) }

// way is something that can happen to a part or a server.
type way struct {
	name string
	do   func() (end func()) // end is nil if it is over at once
}

// interrupt lets one thing happen to something that is not hurt: of twelve times one to a server.
func (r *run) interrupt() {
	if rand.IntN(12) > 0 {
		r.interruptProcess()
		return
	}
	server, name := r.database, "database"
	if rand.IntN(2) == 0 {
		server, name = r.broker, "broker"
	}
	r.hurt(server, name, waysOf(server))
}

// interruptProcess is interrupt for processes alone.
func (r *run) interruptProcess() {
	p := r.parts[rand.IntN(len(r.parts))]
	r.hurt(p, p.settings.Role, r.waysOf(p))
}

func (r *run) hurt(of any, what string, ways []way) {
	if slices.ContainsFunc(r.hurts, func(h hurt) bool { return h.of == of }) {
		return
	}
	w := ways[rand.IntN(len(ways))]
	r.state.Interruptions[what+" "+w.name]++
	end, lasts := w.do(), min(time.Duration(rand.ExpFloat64()*float64(away)), maxAway)
	if end == nil {
		r.log.Printf("%s %s", what, w.name)
		return
	}
	r.log.Printf("%s %s, for %v", what, w.name, lasts.Round(100*time.Millisecond))
	r.hurts = append(r.hurts, hurt{of, time.Now().Add(lasts), end})
}

func (r *run) waysOf(p *part) []way {
	kill := way{"killed", func() func() {
		r.endedByItself(p)
		p.kill()
		return func() { r.start(p) }
	}}
	freeze := way{"frozen", func() func() {
		_ = p.cmd.Process.Signal(syscall.SIGSTOP) // it may have ended, which is reported when it is killed
		return func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
	}}
	cut := func(name string, p *faultproxy.Proxy) way {
		return way{"cut off from the " + name + " for a moment", func() func() {
			p.Cut()
			return nil
		}}
	}
	refuse := func(name string, p *faultproxy.Proxy) way {
		return way{"disconnected from the " + name, func() func() {
			p.Refuse(true)
			p.Cut()
			return func() { p.Refuse(false) }
		}}
	}
	return []way{
		kill, kill, kill, freeze, freeze,
		cut("database", p.db), cut("broker", p.broker), refuse("database", p.db), refuse("broker", p.broker),
	}
}

func waysOf(s *ownserver.Server) []way {
	return []way{
		{"killed", func() func() { s.Kill(); return s.Back }},
		{"frozen", func() func() { s.Pause(); return s.Back }},
	}
}

// endedByItself fails if a process that is to run does not.
func (r *run) endedByItself(p *part) {
	if p.cmd.Process.Signal(syscall.Signal(0)) != nil || isZombie(p.cmd.Process.Pid) {
		r.t.Errorf("a %s has ended by itself; see the file errors", p.settings.Role)
	}
}

// isZombie reports whether a child process has ended, where the system has /proc.
func isZombie(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	var state string
	if i := slices.Index(text, ')'); i >= 0 {
		_, _ = fmt.Sscan(string(text[i+1:]), &state)
	}
	return state == "Z"
}

// heal ends what has lasted long enough.
func (r *run) heal(now time.Time) {
	r.hurts = slices.DeleteFunc(r.hurts, func(h hurt) bool {
		over := h.until.Before(now)
		if over {
			h.end()
		}
		return over
	})
}

func (r *run) healAll() { r.heal(time.Now().Add(maxAway)) }

// report says how far it is.
func (r *run) report(ctx context.Context) {
	orders, effects, err := ledger{r.db}.totals(ctx)
	mib, dead, tablesErr := r.tables(ctx)
	if err != nil || tablesErr != nil {
		r.log.Print("the database is away")
		return
	}
	memory := make(map[string]int)
	for _, p := range r.parts {
		memory[p.settings.Role] = max(memory[p.settings.Role], p.memory())
	}
	n := 0
	for _, times := range r.state.Interruptions {
		n += times
	}
	r.log.Printf("%d orders, %d effects, %d interruptions in %v; our tables have %d MiB and %d dead rows; MiB of processes: %v",
		orders, effects, n, time.Duration(r.state.Seconds)*time.Second, mib, dead, memory)
}

// lookAtStream brings the audit of the stream up to date, if there is one.
func (r *run) lookAtStream(ctx context.Context) error {
	if r.postgres {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reportEvery)
	defer cancel()
	return r.state.Audit.catchUp(ctx, r.brokerURL())
}

// finish ends the producers, waits until every order has its effect, and judges. It reports false if ctx has ended before.
func (r *run) finish(ctx context.Context) bool {
	for _, p := range r.parts {
		r.endedByItself(p)
		if p.settings.Role == "producer" {
			p.kill()
		}
	}
	l := ledger{r.db}
	moved, last := time.Now(), -1
	for {
		orders, effects, err := l.patientTotals(ctx)
		if err != nil {
			return false
		}
		if effects >= orders {
			break
		}
		if effects != last {
			moved, last = time.Now(), effects
		}
		if time.Since(moved) > patience {
			r.t.Errorf("%d orders and %d effects: nothing has moved for %v", orders, effects, patience)
			break
		}
		loop.Sleep(ctx, 100*time.Millisecond)
	}
	if loop.Sleep(ctx, afterwards); ctx.Err() != nil {
		return false
	}
	r.report(ctx)
	r.killAll()
	must(r.t, r.lookAtStream(ctx))
	v, err := l.judge(ctx)
	must(r.t, err)
	letters, err := r.deadLetters(ctx)
	must(r.t, err)
	r.log.Printf("interruptions: %v", r.state.Interruptions)
	r.log.Printf("lost %d, doubled %d, invented %d, out of order %d, dead letters %d", v.Lost, v.Doubled, v.Invented, v.Reordered, letters)
	if !r.postgres {
		a := r.state.Audit
		r.log.Printf("the stream has %d messages, %d of them again, %d out of order", a.Seq, a.Again, a.Reordered)
		v.Reordered = a.Reordered // that of effects is not promised: docs/guarantees.md, "Order"
	}
	if v != (verdict{}) || letters > 0 {
		r.t.Error("the ledger does not balance")
	}
	return true
}
