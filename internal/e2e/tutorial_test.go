package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	natsserver "github.com/nats-io/nats-server/v2/server"
)

const tutorialDir = "../../docs/tutorial/"

// tutorialPages returns the files of the tutorial's steps, in their order.
func tutorialPages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob(tutorialDir + "[0-9]-*.md")
	if err != nil || len(pages) != 8 {
		t.Fatalf("the tutorial has the pages %v, %v; want 8", pages, err)
	}
	return pages
}

// TestTutorial types every command of the tutorial, page by page, and compares what it shows with the page. "…" stands
// for anything within a line, and for any lines where it is alone.
func TestTutorial(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	for _, page := range tutorialPages(t) {
		ok := t.Run(filepath.Base(page), func(t *testing.T) {
			for _, s := range documentedSteps(t, page) {
				r.enter(t, s)
			}
		})
		if !ok {
			t.Fatal("later pages build on this one")
		}
	}
}

// reader is a person at a shell, with a database and a NATS server.
type reader struct {
	env     []string
	instead *strings.Replacer // of the addresses on the pages
}

func newReader(t *testing.T) *reader {
	t.Helper()
	program, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	script := "#!/bin/sh\n" + programEnv + `="$(printf '%s\n' "$@")" exec '` + program + "'\n" // the program waybill
	if err := os.WriteFile(filepath.Join(bin, "waybill"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	shop, second, board, metrics, nats := freeAddress(t), freeAddress(t), freeAddress(t), freeAddress(t), ownNATS(t)
	return &reader{
		env: append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SHOP_ADDR="+shop, "WAYBILL_BY=ann@desk",
			"WAYBILL_STORE="+ownDatabase(t), "WAYBILL_BROKER="+nats),
		instead: strings.NewReplacer("nats://127.0.0.1:4222", nats, "127.0.0.1:8080", shop, "127.0.0.1:8081", second, "127.0.0.1:8090", board, "127.0.0.1:9464", metrics),
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// ownDatabase makes a database that is dropped when the test ends, and returns its URL.
func ownDatabase(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("tutorial_%08x", rand.Uint32())
	do := func(ctx context.Context, statement string) {
		conn, err := pgx.Connect(ctx, postgresURL())
		if err == nil {
			_, err = conn.Exec(ctx, statement)
			conn.Close(ctx)
		}
		if err != nil {
			t.Error(err)
		}
	}
	do(t.Context(), "CREATE DATABASE "+name)
	t.Cleanup(func() { do(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)") })
	u, err := url.Parse(postgresURL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// ownNATS starts a server, because the tutorial uses the stream that a new program has, and returns its URL.
func ownNATS(t *testing.T) string {
	t.Helper()
	server, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(func() {
		server.Shutdown()
		server.WaitForShutdown()
	})
	if !server.ReadyForConnections(unreached) {
		t.Fatal("the NATS server is not ready")
	}
	return server.ClientURL()
}

// changes are the commands that a person types once. Others only look, and are typed until they show what the page says.
var changes = regexp.MustCompile(`go run |curl -d|INSERT|requeue`)

var exitCode = regexp.MustCompile(`\s+# exit code (\d)$`)

// enter types a command and checks what is shown. A command that ends with "&" goes on until the end of the page.
func (r *reader) enter(t *testing.T, s step) {
	t.Helper()
	command, code := s.command, "0"
	if found := exitCode.FindStringSubmatch(command); found != nil {
		command, code = strings.TrimSuffix(command, found[0]), found[1]
	}
	if background, ok := strings.CutSuffix(command, " &"); ok {
		p := r.start(t, background)
		eventually(t, s.command+" shows\n"+s.want, func() bool { return shows(r.instead.Replace("…\n"+s.want+"…\n"), p.said()) })
		return
	}
	var got, ended string
	same := func() bool {
		cmd := r.shell(t.Context(), command)
		out, _ := cmd.CombinedOutput() // how it ended is looked at below
		got, ended = string(out), fmt.Sprint(cmd.ProcessState.ExitCode())
		return ended == code && shows(r.instead.Replace(s.want), got)
	}
	defer func() {
		if t.Failed() {
			t.Logf("$ %s\nexit code %s, want %s\n%s\nwant\n%s", command, ended, code, got, s.want)
		}
	}()
	if !changes.MatchString(command) {
		eventually(t, command, same)
	} else if !same() {
		t.Fatal("the page shows something else")
	}
}

func (r *reader) shell(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", r.instead.Replace(command))
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), r.env
	return cmd
}

// background is a command that a person leaves running.
type background struct {
	mu  sync.Mutex
	out strings.Builder
}

func (b *background) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(text)
}

func (b *background) said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}

// start starts a command that is interrupted, with all that it has started, at the end of the page.
func (r *reader) start(t *testing.T, command string) *background {
	t.Helper()
	b := &background{}
	cmd := r.shell(context.Background(), command)
	cmd.Stdout, cmd.Stderr = b, b
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()                                      // as the signal has it
		if t.Failed() {
			t.Logf("$ %s &\n%s", command, b.said())
		}
	})
	return b
}

// unlike are parts of the output that differ each time: times, ids and ages.
var unlike = regexp.MustCompile(`\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\dZ?|[0-9a-f]{8}-[0-9a-f-]{27}|\b(\d+d|\d+h|\d+m|\d+(\.\d+)?(ms|µs|s))+\b`)

// plain is text without what differs each time, and with one blank between words.
func plain(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.Join(strings.Fields(unlike.ReplaceAllString(line, "~")), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// shows reports whether a screen is what the page has.
func shows(page, screen string) bool {
	pattern := strings.Join(plain(page), "\n") + "\n"
	pattern = regexp.QuoteMeta(pattern)
	pattern = regexp.MustCompile(`(?m)^…\n`).ReplaceAllString(pattern, `(?:.*\n)*?`)
	pattern = strings.ReplaceAll(pattern, "…", ".*")
	pattern = regexp.MustCompile(`-[-+\\]*-`).ReplaceAllString(pattern, `[-+]+`) // as wide as the table
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(strings.Join(plain(screen), "\n") + "\n")
}

var (
	codeBlock = regexp.MustCompile("(?s)```go\n(.*?)```")
	leftOut   = regexp.MustCompile(`(?m)^\s*// …$`) // lines that the page does not show
)

// TestTutorial_Code compares the code on the pages with the programs: a page shows nothing that its program does not
// have, and everything but imports in which the program differs from the one before.
func TestTutorial_Code(t *testing.T) {
	t.Parallel()
	var before []string // lines
	for i, page := range tutorialPages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		program := programLines(t, fmt.Sprintf("../../examples/tutorial/step%d", i+1))
		all := "\n" + strings.Join(program, "\n") + "\n"
		var shown []string
		for _, block := range codeBlock.FindAllStringSubmatch(string(text), -1) {
			for _, part := range leftOut.Split(block[1], -1) {
				lines := trimmed(part)
				if !strings.Contains(all, "\n"+strings.Join(lines, "\n")+"\n") {
					t.Errorf("%s shows code that its program does not have:\n%s", page, strings.Join(lines, "\n"))
				}
				shown = append(shown, lines...)
			}
		}
		for _, line := range program {
			if !slices.Contains(before, line) && !slices.Contains(shown, line) {
				t.Errorf("%s does not show the new line\n%s", page, line)
			}
		}
		before = program
	}
}

// programLines returns the lines of a program, without indentation, empty lines and imports.
func programLines(t *testing.T, dir string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no program: %v", dir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, code, found := strings.Cut(string(text), "\n)\n") // the end of the imports
		if !found {
			t.Fatalf("%s has no imports", file)
		}
		lines = append(lines, trimmed(code)...)
	}
	return lines
}

var stepName = regexp.MustCompile(`usage: step\d`)

// trimmed returns the lines of code that are not empty, without indentation and the number of the step.
func trimmed(code string) (lines []string) {
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, stepName.ReplaceAllString(line, "usage: step"))
		}
	}
	return lines
}
