package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// CheckCode reports what code may not do: sleep or skip in tests, register things in init,
// panic without saying so, and serve HTTP without the limits of internal/httpserve.
func CheckCode(files []*File) []Finding {
	var found []Finding
	for _, f := range files {
		for _, decl := range f.Tree.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && fn.Recv == nil && fn.Name.Name == "init" {
				found = append(found, f.finding(fn.Pos(), "init function; do it where it is needed"))
			}
		}
		if f.IsTest() {
			found = append(found, checkTestCalls(f)...)
		} else {
			found = append(found, checkPanics(f)...)
			found = append(found, checkServers(f)...)
		}
	}
	return found
}

// checkServers finds HTTP servers that a slow client could hold up, or that hold as many
// connections as are opened.
func checkServers(f *File) []Finding {
	name := f.importName("net/http")
	if name == "" || f.Dir() == "internal/httpserve" || strings.HasPrefix(f.Dir(), "examples/") {
		return nil
	}
	var found []Finding
	ast.Inspect(f.Tree, func(n ast.Node) bool {
		made := n
		switch n := n.(type) {
		case *ast.CompositeLit:
			made = n.Type
		case *ast.CallExpr:
			made = n.Fun
		}
		if selector, ok := made.(*ast.SelectorExpr); ok && made != n {
			x, ok := selector.X.(*ast.Ident)
			if ok && x.Name == name && slices.Contains(servers, selector.Sel.Name) {
				found = append(found, f.finding(n.Pos(), "http.%s has no limits; use internal/httpserve", selector.Sel.Name))
			}
		}
		return true
	})
	return found
}

// servers are what of net/http serves.
var servers = []string{"Server", "ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS"}

// checkTestCalls finds sleeps, which make a test slow or unreliable or both, and skips,
// which make a green run mean less than it says. A sleep in a bubble of testing/synctest is
// none.
func checkTestCalls(f *File) []Finding {
	timeName, testingName, bubble := f.importName("time"), f.importName("testing"), f.importName("testing/synctest")
	var found []Finding
	var inspect func(n ast.Node, inBubble bool)
	inspect = func(n ast.Node, inBubble bool) {
		ast.Inspect(n, func(inner ast.Node) bool {
			call, ok := inner.(*ast.CallExpr)
			if !ok {
				return true
			}
			x, name := selected(call)
			switch {
			case bubble != "" && x == bubble && name == "Test":
				for _, arg := range call.Args {
					inspect(arg, true)
				}
				return false
			case x != "" && x == timeName && name == "Sleep" && !inBubble:
				found = append(found, f.finding(call.Pos(), "time.Sleep in a test; wait for the event, or use testing/synctest"))
			case x != "" && x == testingName && name == "Short":
				found = append(found, f.finding(call.Pos(), "testing.Short in a test; every run runs everything"))
			case name == "Skip" || name == "Skipf" || name == "SkipNow":
				found = append(found, f.finding(call.Pos(), "%s in a test; what can't run must fail and say how it could", name))
			}
			return true
		})
	}
	inspect(f.Tree, false)
	return found
}

// selected returns x and name of a call of x.name, with x empty if it is no identifier.
func selected(call *ast.CallExpr) (x, name string) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if ident, ok := selector.X.(*ast.Ident); ok {
		x = ident.Name
	}
	return x, selector.Sel.Name
}

// checkPanics finds panics that no caller can know of. A function may panic if its comment
// says that it panics, if it passes on what it has recovered, or where it can't be.
func checkPanics(f *File) []Finding {
	var found []Finding
	for _, decl := range f.Tree.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && strings.Contains(fn.Doc.Text(), "panics") {
			continue
		}
		for _, pos := range panics(decl) {
			found = append(found, f.finding(pos, "panic in a function whose comment does not say when it panics; return an error"))
		}
	}
	return found
}

// panics returns the positions of calls of panic in n, except panic("unreachable") and
// those in a function that calls recover itself.
func panics(n ast.Node) []token.Pos {
	var found []token.Pos
	recovers := false
	ast.Inspect(n, func(inner ast.Node) bool {
		if literal, ok := inner.(*ast.FuncLit); ok {
			found = append(found, panics(literal.Body)...)
			return false
		}
		call, ok := inner.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch name, _ := call.Fun.(*ast.Ident); {
		case name == nil:
		case name.Name == "recover":
			recovers = true
		case name.Name == "panic" && !isUnreachable(call):
			found = append(found, call.Pos())
		}
		return true
	})
	if recovers {
		return nil
	}
	return found
}

func isUnreachable(call *ast.CallExpr) bool {
	text, ok := call.Args[0].(*ast.BasicLit)
	return ok && text.Value == `"unreachable"`
}
