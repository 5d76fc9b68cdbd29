package archtest

import "go/ast"

// The longest a file and a function may be, in lines. Tests may be longer.
const (
	maxFileLines     = 600
	goodFileLines    = 500
	maxFunctionLines = 80
)

// CheckSizes reports files and functions that are too long to be read at once.
func CheckSizes(files []*File) []Finding {
	var found []Finding
	for _, f := range files {
		if f.IsTest() {
			continue
		}
		if f.Lines > maxFileLines {
			found = append(found, f.finding(f.Tree.Package, "the file has %d lines, the limit is %d", f.Lines, maxFileLines))
		}
		for _, decl := range f.Tree.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := f.Fset.Position(fn.End()).Line - f.Fset.Position(fn.Pos()).Line + 1
			if lines > maxFunctionLines {
				found = append(found, f.finding(fn.Pos(), "%s has %d lines, the limit is %d", fn.Name.Name, lines, maxFunctionLines))
			}
		}
	}
	return found
}

// LongFiles reports files that are allowed and near the limit.
func LongFiles(files []*File) []Finding {
	var found []Finding
	for _, f := range files {
		if !f.IsTest() && f.Lines > goodFileLines && f.Lines <= maxFileLines {
			found = append(found, f.finding(f.Tree.Package, "the file has %d lines, split it before it has more than %d", f.Lines, maxFileLines))
		}
	}
	return found
}
