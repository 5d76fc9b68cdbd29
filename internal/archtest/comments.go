package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// selfEvident are methods that the standard library gives one meaning.
var selfEvident = []string{"Error", "Unwrap", "Is", "As", "String", "Len", "Less", "Swap", "ServeHTTP"}

// CheckComments reports what can be seen by users and has no doc comment, or one that does
// not begin with its name, and packages without a package comment.
func CheckComments(files []*File) []Finding {
	found := checkPackageComments(files)
	for _, f := range files {
		if f.IsTest() || !importable(groupOf(unitOf(f.Dir()))) {
			continue
		}
		c := commentCheck{file: f}
		for _, decl := range f.Tree.Decls {
			c.decl(decl)
		}
		found = append(found, c.found...)
	}
	return found
}

// checkPackageComments looks at tests only where a package has nothing else.
func checkPackageComments(files []*File) []Finding {
	first := make(map[string]*File)
	has := make(map[string]bool)
	var dirs []string
	for _, f := range files {
		dir := f.Dir()
		if other, ok := first[dir]; !ok {
			dirs = append(dirs, dir)
			first[dir] = f
		} else if other.IsTest() && !f.IsTest() {
			first[dir] = f
			has[dir] = false
		}
		if first[dir].IsTest() == f.IsTest() && hasPackageComment(f) {
			has[dir] = true
		}
	}
	var found []Finding
	for _, dir := range dirs {
		if !has[dir] {
			f := first[dir]
			found = append(found, f.finding(f.Tree.Package, "%s has no package comment that begins with its name", shown(dir)))
		}
	}
	return found
}

func hasPackageComment(f *File) bool {
	text := f.Tree.Doc.Text()
	if f.Tree.Name.Name == "main" {
		return text != ""
	}
	return strings.HasPrefix(text, "Package "+strings.TrimSuffix(f.Tree.Name.Name, "_test")+" ")
}

// commentCheck collects the findings about the declarations of one file.
type commentCheck struct {
	file  *File
	found []Finding
}

func (c *commentCheck) failf(pos token.Pos, format string, args ...any) {
	c.found = append(c.found, c.file.finding(pos, format, args...))
}

func (c *commentCheck) decl(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		c.function(d)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				c.typeSpec(d, s)
			case *ast.ValueSpec:
				c.valueSpec(d, s)
			}
		}
	}
}

func (c *commentCheck) function(d *ast.FuncDecl) {
	name := d.Name.Name
	if !d.Name.IsExported() {
		return
	}
	if d.Recv != nil {
		receiver := receiverName(d.Recv.List[0].Type)
		if !ast.IsExported(receiver) || slices.Contains(selfEvident, name) {
			return
		}
		c.begins(d.Pos(), d.Doc, receiver+"."+name, name)
		return
	}
	c.begins(d.Pos(), d.Doc, name, name)
}

// receiverName returns the name of the type in *T, T and T[P].
func receiverName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiverName(t.X)
	case *ast.IndexExpr:
		return receiverName(t.X)
	case *ast.IndexListExpr:
		return receiverName(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

func (c *commentCheck) typeSpec(d *ast.GenDecl, s *ast.TypeSpec) {
	name := s.Name.Name
	if !s.Name.IsExported() {
		return
	}
	doc := s.Doc
	if doc == nil && !d.Lparen.IsValid() {
		doc = d.Doc
	}
	c.begins(s.Pos(), doc, name, name, "A "+name, "An "+name)
	switch t := s.Type.(type) {
	case *ast.StructType:
		if name == "Config" || strings.HasSuffix(name, "Config") {
			c.fields(name, t.Fields)
		}
	case *ast.InterfaceType:
		c.fields(name, t.Methods)
	}
}

// fields checks the fields of a configuration or the methods of an interface. A comment
// behind one is enough.
func (c *commentCheck) fields(owner string, list *ast.FieldList) {
	for _, field := range list.List {
		if len(field.Names) == 0 || !field.Names[0].IsExported() {
			continue
		}
		name := field.Names[0].Name
		switch {
		case field.Doc != nil:
			c.begins(field.Pos(), field.Doc, owner+"."+name, name)
		case field.Comment == nil && !slices.Contains(selfEvident, name):
			c.failf(field.Pos(), "%s.%s has no doc comment", owner, name)
		}
	}
}

// valueSpec checks a constant or variable. The comment of a group stands for all in it that
// have none.
func (c *commentCheck) valueSpec(d *ast.GenDecl, s *ast.ValueSpec) {
	for _, ident := range s.Names {
		if !ident.IsExported() {
			continue
		}
		name := ident.Name
		switch {
		case s.Doc != nil && len(s.Names) == 1:
			c.begins(s.Pos(), s.Doc, name, name)
		case !d.Lparen.IsValid() && len(s.Names) == 1:
			c.begins(s.Pos(), d.Doc, name, name)
		case s.Doc == nil && s.Comment == nil && d.Doc == nil:
			c.failf(s.Pos(), "%s has no doc comment", name)
		}
	}
}

// begins checks that a doc comment begins with one of the given words.
func (c *commentCheck) begins(pos token.Pos, doc *ast.CommentGroup, shown string, words ...string) {
	text := doc.Text()
	if strings.TrimSpace(text) == "" {
		c.failf(pos, "%s has no doc comment", shown)
		return
	}
	for _, word := range words {
		if rest, ok := strings.CutPrefix(text, word); ok && !startsWithLetter(rest) {
			return
		}
	}
	c.failf(pos, "the doc comment of %s does not begin with %s", shown, words[0])
}

func startsWithLetter(s string) bool {
	return s != "" && (token.IsIdentifier(s[:1]) || s[0] >= '0' && s[0] <= '9')
}
