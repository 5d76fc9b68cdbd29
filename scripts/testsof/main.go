// Command testsof prints the tests of packages that declare themselves to be of a kind, as a pattern for "go test -run"
// or "-skip". A test declares its kind in a line of its doc comment:
//
//	//test:cluster
//
// It may have several kinds, of those in kinds.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kinds are what a test may declare to be, and what that means.
var kinds = map[string]string{
	"sessions":    "runs in each kind of database session",
	"pooled":      "runs through PgBouncer, too",
	"setup":       "is a suite of a store on a server, or in another set-up than the first: with the race detector in make soak only",
	"newest":      "is the suite of one store or one broker, which runs with the newest dependencies, too",
	"soak":        "has a long form",
	"soak-memory": "has a long form that weighs memory, which the race detector would grow",
	"long":        "takes as long as its first set-up does and waits most of that: only in make soak",
	"clock":       "moves a clock, or transaction numbers, with servers of its own: only in make soak",
	"cluster":     "takes servers of clusters away: only in make clusters",
	"long-soak":   "runs whole systems for hours: only in make long-soak",
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: testsof KIND[,KIND…] DIR…")
		os.Exit(2)
	}
	pattern, err := patternOf(strings.Split(os.Args[1], ","), os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsof:", err)
		os.Exit(1)
	}
	fmt.Println(pattern)
}

// patternOf returns a pattern for the tests that have at least one of the kinds. A kind without tests is an error: an
// empty pattern would match every test.
func patternOf(wanted, dirs []string) (string, error) {
	var names []string
	found := make(map[string]bool)
	for _, dir := range dirs {
		tests, err := testsIn(dir)
		if err != nil {
			return "", err
		}
		for _, t := range tests {
			for _, kind := range t.kinds {
				if slices.Contains(wanted, kind) {
					names, found[kind] = append(names, t.name), true
				}
			}
		}
	}
	for _, kind := range wanted {
		if !found[kind] {
			return "", fmt.Errorf("no test in %s is of the kind %q", strings.Join(dirs, " "), kind)
		}
	}
	slices.Sort(names)
	return "^(" + strings.Join(slices.Compact(names), "|") + ")$", nil
}

// test is a test function and the kinds that it declares.
type test struct {
	name  string
	kinds []string
}

// testsIn returns the tests of a directory.
func testsIn(dir string) (tests []test, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			t := test{name: fn.Name.Name, kinds: kindsOf(fn.Doc)}
			for _, kind := range t.kinds {
				if kinds[kind] == "" {
					return nil, fmt.Errorf("%s: %s is of the unknown kind %q", path, t.name, kind)
				}
			}
			tests = append(tests, t)
		}
	}
	return tests, nil
}

func kindsOf(doc *ast.CommentGroup) (list []string) {
	if doc == nil {
		return nil
	}
	for _, c := range doc.List {
		if kind, ok := strings.CutPrefix(c.Text, "//test:"); ok {
			list = append(list, kind)
		}
	}
	return list
}
