package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"time"
)

// patience is the least time that a test waits for something to happen, before it says that it hangs.
const patience = 5 * time.Minute

// reached is the time from which on a deadline is taken for a wait. One that a test lets pass is shorter.
const reached = time.Second

// CheckPatience reports tests that run in real time and wait for something for less than patience: on a
// busy machine they fail for nothing. A file that uses bubbles of testing/synctest has a clock that no
// machine slows down.
func CheckPatience(files []*File) []Finding {
	var found []Finding
	for _, f := range files {
		timeName := f.importName("time")
		tests := f.IsTest() || slices.Contains(realSystems, f.Dir())
		if timeName == "" || !tests || f.importName("testing/synctest") != "" {
			continue
		}
		ast.Inspect(f.Tree, func(n ast.Node) bool {
			if limit := waitLimit(n, timeName); limit != nil {
				if d := duration(limit, timeName); d >= reached && d < patience {
					found = append(found, f.finding(n.Pos(), "waits for %v at most; wait with patience, a constant of five minutes", d))
				}
			}
			return true
		})
	}
	return found
}

// waitLimit returns for how long n waits for something: the timeout of a context or of a function that is
// called within, a case of a select that fails, a timer that is kept for one, the end of a loop, or a
// constant that is called patience. It returns nil for what does not wait.
func waitLimit(n ast.Node, timeName string) ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		_, name := selected(n)
		if called, ok := n.Fun.(*ast.Ident); ok {
			name = called.Name
		}
		if (name == "WithTimeout" || name == "within") && len(n.Args) > 1 {
			return n.Args[1]
		}
	case *ast.CommClause:
		if wait, ok := n.Comm.(*ast.ExprStmt); ok && fails(n) {
			if receive, ok := wait.X.(*ast.UnaryExpr); ok {
				return argument(receive.X, timeName, "After")
			}
		}
	case *ast.AssignStmt:
		return argument(n.Rhs[0], timeName, "After")
	case *ast.ForStmt:
		if init, ok := n.Init.(*ast.AssignStmt); ok {
			return sinceNow(init.Rhs[0], timeName)
		}
	case *ast.ValueSpec:
		if len(n.Values) == 1 && strings.HasSuffix(strings.ToLower(n.Names[0].Name), "patience") {
			return n.Values[0]
		}
	}
	return nil
}

// argument returns the argument of the call e of package.function, or nil if e is something else.
func argument(e ast.Expr, packageName, function string) ast.Expr {
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 1 {
		if x, name := selected(call); x == packageName && name == function {
			return call.Args[0]
		}
	}
	return nil
}

// sinceNow returns x if e is time.Now().Add(x), else nil.
func sinceNow(e ast.Expr, timeName string) ast.Expr {
	add, ok := e.(*ast.CallExpr)
	if !ok || len(add.Args) != 1 {
		return nil
	}
	if of, ok := add.Fun.(*ast.SelectorExpr); ok && of.Sel.Name == "Add" {
		if now, ok := of.X.(*ast.CallExpr); ok {
			if x, name := selected(now); x == timeName && name == "Now" {
				return add.Args[0]
			}
		}
	}
	return nil
}

// duration returns the value of an expression like time.Minute or 30 * time.Second, 0 for others.
func duration(e ast.Expr, timeName string) time.Duration {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && x.Name == timeName {
			return units[e.Sel.Name]
		}
	case *ast.BinaryExpr:
		if count, ok := e.X.(*ast.BasicLit); ok && e.Op == token.MUL {
			n, err := strconv.Atoi(count.Value)
			if err == nil {
				return time.Duration(n) * duration(e.Y, timeName)
			}
		}
	}
	return 0
}

var units = map[string]time.Duration{
	"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}
