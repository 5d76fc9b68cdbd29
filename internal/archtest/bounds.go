package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// realSystems are the packages whose tests run against servers and processes, in real time.
var realSystems = []string{"internal/conformance", "internal/e2e", "store/storetest", "broker/brokertest"}

// CheckBounds reports tests that fail because a real system took too long: how long it takes says
// more about the machine than about the code. What is found is a failure below an if statement
// that compares time.Since, or a variable that holds its result, with an upper bound.
func CheckBounds(files []*File) []Finding {
	var found []Finding
	for _, f := range files {
		timeName := f.importName("time")
		if timeName == "" || !slices.Contains(realSystems, path.Dir(f.Path)) {
			continue
		}
		for _, decl := range f.Tree.Decls {
			elapsed := elapsedNames(decl, timeName)
			ast.Inspect(decl, func(n ast.Node) bool {
				if branch, ok := n.(*ast.IfStmt); ok && boundsAbove(branch.Cond, timeName, elapsed) && fails(branch.Body) {
					found = append(found, f.finding(branch.Pos(), "upper bound in time on a real system; say what comes before what, or how often, and measure in bench"))
				}
				return true
			})
		}
	}
	return found
}

// elapsedNames returns the variables in n that hold a result of time.Since.
func elapsedNames(n ast.Node, timeName string) map[string]bool {
	names := make(map[string]bool)
	ast.Inspect(n, func(inner ast.Node) bool {
		if assign, ok := inner.(*ast.AssignStmt); ok && len(assign.Lhs) == len(assign.Rhs) {
			for i, value := range assign.Rhs {
				if name, ok := assign.Lhs[i].(*ast.Ident); ok && isElapsed(value, timeName, nil) {
					names[name.Name] = true
				}
			}
		}
		return true
	})
	return names
}

// isElapsed reports whether e is a call of time.Since, or one of names.
func isElapsed(e ast.Expr, timeName string, names map[string]bool) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return names[e.Name]
	case *ast.CallExpr:
		x, name := selected(e)
		return x == timeName && name == "Since"
	}
	return false
}

// boundsAbove reports whether a condition holds if a time that has passed is above something.
func boundsAbove(cond ast.Expr, timeName string, elapsed map[string]bool) (above bool) {
	ast.Inspect(cond, func(n ast.Node) bool {
		if compare, ok := n.(*ast.BinaryExpr); ok {
			switch compare.Op {
			case token.GTR, token.GEQ:
				above = above || isElapsed(compare.X, timeName, elapsed)
			case token.LSS, token.LEQ:
				above = above || isElapsed(compare.Y, timeName, elapsed)
			}
		}
		return true
	})
	return above
}

// fails reports whether a block calls Error, Fatal or the like.
func fails(block ast.Node) (yes bool) {
	ast.Inspect(block, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			_, name := selected(call)
			yes = yes || strings.TrimSuffix(name, "f") == "Error" || strings.TrimSuffix(name, "f") == "Fatal"
		}
		return true
	})
	return yes
}
