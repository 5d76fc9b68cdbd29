// Command bugs breaks the relay on purpose, in one way after the other, and prints what finds each of
// them: the simulator, the explorer or a test. With -mutants it changes single operators and conditions of
// the core instead, drawn at random, and prints the undetected ones. With -orders it breaks the stores
// instead, and prints which scenarios of internal/interleave find it; it needs PostgreSQL.
//
//	go run ./internal/sim/bugs
//	go run ./internal/sim/bugs -mutants 50
//	go run ./internal/sim/bugs -orders
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	seeds := flag.Int("seeds", 10_000, "most seeds that are run for a bug; 0 for its test only")
	states := flag.Int("states", 60_000, "most states that are explored of a system for a bug that the simulator misses")
	only := flag.String("only", "", "run those bugs only whose names match")
	changed := flag.Int("mutants", 0, "try as many mutants of the core instead of the bugs")
	draw := flag.Uint64("draw", 1, "with -mutants, the seed by which they are drawn")
	orders := flag.Bool("orders", false, "break the stores")
	flag.Parse()
	if *changed > 0 {
		tryMutants(*changed, *draw, *seeds)
		return
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	if *orders {
		tryOrders(context.Background(), match)
		return
	}
	var list []bug
	for _, b := range bank {
		if match.MatchString(b.name) {
			list = append(list, b)
		}
	}
	found := findAll(context.Background(), list, *seeds, *states)
	fmt.Print(table(list, found))
	for i := range found {
		if found[i].err != nil || found[i].by == "" {
			os.Exit(1)
		}
	}
}

// tryMutants prints the undetected mutants.
func tryMutants(n int, draw uint64, seeds int) {
	at, err := root()
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	all, err := mutants(at)
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	total := len(all)
	list := sample(all, n, draw)
	found := findAll(context.Background(), list, seeds, 0)
	for i, f := range found {
		if f.by == "" {
			fmt.Println(list[i].name)
		}
	}
	fmt.Printf("of %d in all, %s", total, score(found))
}

// finding is what has found a bug.
type finding struct {
	by    string // simulator, explorer, or the name of a test; empty if nothing has
	seeds int    // seeds or states that it took
	how   string // the promise that was broken
	err   error
}

// findAll looks for several bugs concurrently.
func findAll(ctx context.Context, list []bug, seeds, states int) []finding {
	found := make([]finding, len(list))
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for i, b := range list {
		slots <- struct{}{}
		group.Go(func() {
			found[i] = find(ctx, b, seeds, states)
			fmt.Fprintf(os.Stderr, "%s: %s %d %v\n", b.name, found[i].by, found[i].seeds, found[i].err)
			<-slots
		})
	}
	group.Wait()
	return found
}

const tableHead = "| bug | found by | after |\n|---|---|---|\n"

// table prints what was found in Markdown.
func table(list []bug, found []finding) string {
	var out strings.Builder
	out.WriteString(tableHead)
	for i, b := range list {
		f := found[i]
		after := map[string]string{"simulator": fmt.Sprintf("%d seeds", f.seeds), "explorer": fmt.Sprintf("%d states", f.seeds)}[f.by]
		by := f.by
		if by == "" {
			by = "**nothing**"
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", b.name, by, after)
	}
	return out.String()
}

// find builds the simulator with a bug in it and runs it to look for a broken promise.
func find(ctx context.Context, b bug, seeds, states int) finding {
	root, err := root()
	if err != nil {
		return finding{err: err}
	}
	dir, err := os.MkdirTemp("", "bug")
	if err != nil {
		return finding{err: err}
	}
	defer os.RemoveAll(dir)
	overlay, err := b.overlay(root, dir)
	if err != nil {
		return finding{err: err}
	}
	if b.whole != "" {
		return kill(ctx, root, dir, overlay, seeds)
	}
	if seeds > 0 {
		if f := simulate(ctx, root, dir, overlay, seeds, states); f.by != "" || f.err != nil {
			return f
		}
	}
	return tested(ctx, root, overlay, b)
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// tested runs the test that is named for a bug, or else those of the core.
func tested(ctx context.Context, root, overlay string, b bug) finding {
	pkg, name, named := strings.Cut(b.test, " ")
	if !named {
		pkg, name = core, "Test.*"
	}
	out, err := run(ctx, root, "go", "test", "-overlay", overlay, "-run", "^"+name+"$", "./"+pkg)
	if m := failedTest.FindStringSubmatch(out); err != nil && m != nil {
		return finding{by: m[1], how: out}
	}
	return finding{}
}

// simulate builds the simulator and makes it run seeds, and then explore.
func simulate(ctx context.Context, root, dir, overlay string, seeds, states int) finding {
	binary := filepath.Join(dir, "sim")
	if out, err := run(ctx, root, "go", "build", "-overlay", overlay, "-o", binary, "./internal/sim"); err != nil {
		return finding{err: fmt.Errorf("%w: %s", err, out)}
	}
	if out, err := run(ctx, dir, binary, "-shrink=false", "-seeds", strconv.Itoa(seeds)); err != nil {
		return simulated(out)
	}
	if states > 0 {
		if out, err := run(ctx, dir, binary, "-explore", "-faults", "1", "-limit", strconv.Itoa(states)); err != nil {
			return explored(out)
		}
	}
	return finding{}
}

var (
	seedLine  = regexp.MustCompile(`(?m)^seed (\d+): (.*)$`)
	stateLine = regexp.MustCompile(`(?m)(\d+) states,.*a promise is broken: (.*)$`)
)

func simulated(out string) finding {
	m := seedLine.FindStringSubmatch(out)
	if m == nil { // it panicked
		return finding{by: "simulator", seeds: 1, how: firstLine(out)}
	}
	n, _ := strconv.Atoi(m[1])
	return finding{by: "simulator", seeds: n + 1, how: m[2]}
}

func explored(out string) finding {
	m := stateLine.FindStringSubmatch(out)
	if m == nil {
		return finding{by: "explorer", how: firstLine(out)}
	}
	n, _ := strconv.Atoi(m[1])
	return finding{by: "explorer", seeds: n, how: m[2]}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// overlay writes a file that makes the go command compile the bug instead of the code.
func (b *bug) overlay(root, dir string) (string, error) {
	at := filepath.Join(root, b.file)
	code, err := os.ReadFile(at)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(code), b.old); b.whole == "" && n != 1 {
		return "", fmt.Errorf("%s has %q %d times, want once", b.file, b.old, n)
	}
	broken := filepath.Join(dir, filepath.Base(b.file))
	text := cmp.Or(b.whole, strings.Replace(string(code), b.old, b.new, 1))
	if err := os.WriteFile(broken, []byte(text), 0o600); err != nil {
		return "", err
	}
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {at: broken}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, replaced, 0o600)
}

const patience = 20 * time.Minute // ends a test that hangs

// run runs a program and returns what it has printed.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// root returns the folder of the module.
func root() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
}
