package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// swaps are the operators that a mutant has instead of another one.
var swaps = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD},
}

// mutants returns every way to change one operator or condition of the core, in the order of the code.
func mutants(root string) (list []bug, _ error) {
	files, err := filepath.Glob(filepath.Join(root, core, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, at := range files {
		if strings.HasSuffix(at, "_test.go") {
			continue
		}
		code, err := os.ReadFile(at)
		if err != nil {
			return nil, err
		}
		of, err := mutantsOf(core+filepath.Base(at), string(code))
		if err != nil {
			return nil, err
		}
		list = append(list, of...)
	}
	return list, nil
}

// mutantsOf returns the mutants of one file.
func mutantsOf(file, code string) (list []bug, _ error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, code, 0)
	if err != nil {
		return nil, err
	}
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	change := func(from, to token.Pos, replacement string) {
		a, b := offset(from), offset(to)
		list = append(list, bug{
			name: fmt.Sprintf("%s:%d: %s becomes %s", filepath.Base(file), set.Position(from).Line, code[a:b], replacement),
			file: file, whole: code[:a] + replacement + code[b:],
		})
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			for _, op := range swaps[n.Op] {
				change(n.Pos(), n.End(), code[offset(n.X.Pos()):offset(n.X.End())]+" "+op.String()+" "+code[offset(n.Y.Pos()):offset(n.Y.End())])
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				change(n.Pos(), n.End(), code[offset(n.X.Pos()):offset(n.X.End())])
			}
		case *ast.IfStmt:
			change(n.Cond.Pos(), n.Cond.End(), "!("+code[offset(n.Cond.Pos()):offset(n.Cond.End())]+")")
		}
		return true
	})
	return list, nil
}

// sample draws n of the mutants.
func sample(list []bug, n int, seed uint64) []bug {
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(n, len(list))]
}

// kill looks for what detects a mutant: that it does not build, which does not count, the core's own tests,
// which are quick, or the simulator.
func kill(ctx context.Context, root, dir, overlay string, seeds int) finding {
	if out, err := run(ctx, root, "go", "vet", "-overlay", overlay, "./"+core); err != nil {
		return finding{by: unbuilt, how: firstLine(out)}
	}
	out, err := run(ctx, root, "go", "test", "-overlay", overlay, "-timeout", "2m", "./"+core)
	if m := failedTest.FindStringSubmatch(out); err != nil {
		if m == nil { // it panicked, or did not end
			m = []string{"", "a test of the core"}
		}
		return finding{by: m[1]}
	}
	return simulate(ctx, root, dir, overlay, seeds, 0)
}

// unbuilt marks mutants that do not compile.
const unbuilt = "the compiler"

// score returns how many mutants were detected.
func score(found []finding) string {
	built, noticed := 0, 0
	for _, f := range found {
		if f.by == unbuilt {
			continue
		}
		built++
		if f.by != "" {
			noticed++
		}
	}
	return strconv.Itoa(noticed) + " of " + strconv.Itoa(built) + " mutants are noticed\n"
}
