package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
)

// CheckSnippets finds Go code in documentation that does not parse, and names in it that a
// package of the module does not have: exported ones behind the name of a package, and fields in
// literals of its structs. A variable must not be called like a package there. Methods are not
// looked at, because the types of variables are not known.
func CheckSnippets(docs []Doc, files []*File) []Finding {
	packages := exportsOf(files)
	var found []Finding
	for _, d := range docs {
		for _, s := range d.snippets() {
			fset := token.NewFileSet()
			tree, err := parseSnippet(fset, s.text)
			if err != nil {
				found = append(found, Finding{Path: d.Path, Line: s.line, Text: "the code does not parse: " + err.Error()})
				continue
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				if missing := missingName(n, packages); missing != "" {
					line := s.line + fset.Position(n.Pos()).Line - 2 // the first is "package p"
					found = append(found, Finding{Path: d.Path, Line: line, Text: "there is no " + missing})
				}
				return true
			})
		}
	}
	return found
}

// snippet is a block of Go code.
type snippet struct {
	line int // of its first line
	text string
}

func (d Doc) snippets() []snippet {
	var all []snippet
	var current *snippet
	for i, line := range d.Lines {
		switch {
		case current == nil && line == "```go":
			current = &snippet{line: i + 2}
		case current != nil && line == "```":
			all = append(all, *current)
			current = nil
		case current != nil:
			current.text += line + "\n"
		}
	}
	return all
}

// parseSnippet takes declarations, statements, the fields of a literal, or declarations with
// statements behind them. Lines stay where they are.
func parseSnippet(fset *token.FileSet, text string) (tree *ast.File, err error) {
	first, rest, _ := strings.Cut(text, "\n")
	for _, source := range []string{
		text,
		"func _() {" + text + "}",
		"var _ = T{" + text + "}",
		first + "; func _() {\n" + rest + "}",
	} {
		var failed error
		if tree, failed = parser.ParseFile(fset, "", "package p\n"+source, parser.SkipObjectResolution); failed == nil {
			return tree, nil
		}
		err = failed
	}
	return nil, err
}

// exports are the exported names of a package; of a struct, with its fields.
type exports map[string]map[string]bool

func exportsOf(files []*File) map[string]exports {
	packages := map[string]exports{}
	for _, f := range files {
		if f.IsTest() || strings.HasPrefix(f.Path, "internal/") || strings.HasPrefix(f.Path, "examples/") {
			continue
		}
		name := f.Tree.Name.Name
		if f.Dir() != "" && name != path.Base(f.Dir()) {
			continue // a command
		}
		if packages[name] == nil {
			packages[name] = exports{}
		}
		packages[name].add(f.Tree)
	}
	return packages
}

func (e exports) add(tree *ast.File) {
	for _, decl := range tree.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				e[decl.Name.Name] = nil
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					e[spec.Name.Name] = fieldsOf(spec.Type)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						e[name.Name] = nil
					}
				}
			}
		}
	}
}

// fieldsOf returns the fields of a struct, embedded ones included by the name of their type,
// and nil for other types.
func fieldsOf(t ast.Expr) map[string]bool {
	s, ok := t.(*ast.StructType)
	if !ok {
		return nil
	}
	fields := map[string]bool{}
	for _, field := range s.Fields.List {
		for _, name := range field.Names {
			fields[name.Name] = true
		}
		if len(field.Names) == 0 {
			_, name := named(field.Type)
			fields[name] = true
		}
	}
	return fields
}

// named returns the package and name that an expression is: pkg.Name, *pkg.Name, pkg.Name[T].
func named(e ast.Expr) (pkg, name string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return named(e.X)
	case *ast.IndexExpr:
		return named(e.X)
	case *ast.IndexListExpr:
		return named(e.X)
	case *ast.Ident:
		return "", e.Name
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return x.Name, e.Sel.Name
		}
	}
	return "", ""
}

// missingName returns what n names that its package does not have, or "".
func missingName(n ast.Node, packages map[string]exports) string {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		pkg, name := named(n)
		if known, ours := packages[pkg]; ours {
			if _, ok := known[name]; !ok {
				return pkg + "." + name
			}
		}
	case *ast.CompositeLit:
		pkg, name := named(n.Type)
		fields := packages[pkg][name]
		for _, element := range n.Elts {
			pair, ok := element.(*ast.KeyValueExpr)
			if !ok || fields == nil {
				continue
			}
			if key, ok := pair.Key.(*ast.Ident); ok && !fields[key.Name] {
				return pkg + "." + name + "." + key.Name
			}
		}
	}
	return ""
}
