package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/waybill-go/waybill/internal/cli"
)

// programEnv holds the arguments of a child that is the program waybill.
const programEnv = "E2E_PROGRAM"

// runProgram is the main function of such a child, as that of cmd/waybill.
func runProgram(args string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return cli.Run(ctx, strings.Split(args, "\n"), os.Stdout, os.Stderr)
}

// programRun is the program as a process of its own.
type programRun struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed at the end of its output

	mu  sync.Mutex
	log []string
}

// startProgram runs the program in a directory of its own unless dir names one. It is killed
// when the story ends.
func startProgram(t *testing.T, dir string, args ...string) *programRun {
	t.Helper()
	p := &programRun{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), programEnv+"="+strings.Join(args, "\n"))
	out, in := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = in, in
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			p.log = append(p.log, lines.Text())
			p.mu.Unlock()
		}
	}()
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		_ = p.cmd.Wait() // its state says how it ended
		in.Close()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-reaped
		<-p.ended
	})
	return p
}

// said is everything that it has written.
func (p *programRun) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, "\n")
}

// record waits for a record of the log, and returns its attributes. The program must have been
// configured to log as JSON.
func (p *programRun) record(t *testing.T, message string) map[string]any {
	t.Helper()
	var found map[string]any
	defer func() {
		if found == nil {
			t.Logf("the program said:\n%s", p.said())
		}
	}()
	eventually(t, "the program logs "+message, func() bool {
		ended := p.hasEnded()
		for line := range strings.Lines(p.said()) {
			var record map[string]any
			if json.Unmarshal([]byte(line), &record) == nil && record["msg"] == message {
				found = record
				return true
			}
		}
		if ended {
			t.Fatalf("the program ended before it logged %s", message)
		}
		return false
	})
	return found
}

func (p *programRun) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// terminate ends it as an orchestrator does, and returns its exit code.
func (p *programRun) terminate(t *testing.T) int {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	return p.exitCode(t)
}

func (p *programRun) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (p *programRun) exitCode(t *testing.T) int {
	t.Helper()
	eventually(t, "the program ends", p.hasEnded)
	return p.cmd.ProcessState.ExitCode()
}
