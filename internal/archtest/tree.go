// Package archtest checks the rules that hold for the source of the whole module: which
// package may import which, what has a doc comment, what code may not do, which words
// texts use, and that the documentation links to, shows and names what there is.
//
// Each rule is a function from parsed files to findings, so that a test can show it a
// source that breaks it. The files are read with go/parser and not by the go command,
// because a test that runs a command is cached although the files have changed.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Module is the import path of the module that is checked.
const Module = "github.com/waybill-go/waybill"

// File is one parsed Go file.
type File struct {
	Path  string // relative to the module's root, with slashes
	Fset  *token.FileSet
	Tree  *ast.File
	Lines int
}

// Finding is one place that breaks a rule.
type Finding struct {
	Path string
	Line int
	Text string
}

// String is the finding in the form that editors jump to.
func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text) }

// Parse parses the source of the file at path, which is relative to the module's root.
func Parse(path string, src []byte) (*File, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &File{Path: path, Fset: fset, Tree: tree, Lines: fset.File(tree.FileStart).LineCount()}, nil
}

// Load parses every Go file of the module whose root is dir. Modules nested in it are left
// out, and what the go command leaves out: testdata, and names that begin with '.' or '_'.
func Load(dir string) ([]*File, error) {
	var files []*File
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(dir, name)
		}
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(entry.Name(), "_") {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		f, err := Parse(filepath.ToSlash(relative), src)
		if err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// enter returns fs.SkipDir for a directory that is no part of the module.
func enter(root, dir string) error {
	if dir == root {
		return nil
	}
	base := filepath.Base(dir)
	if base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// Dir returns the package's directory relative to the module's root, "" for the root.
func (f *File) Dir() string {
	if dir := path.Dir(f.Path); dir != "." {
		return dir
	}
	return ""
}

// IsTest reports whether the file is compiled into tests only.
func (f *File) IsTest() bool { return strings.HasSuffix(f.Path, "_test.go") }

// finding makes a finding about the code at pos.
func (f *File) finding(pos token.Pos, format string, args ...any) Finding {
	return Finding{Path: f.Path, Line: f.Fset.Position(pos).Line, Text: fmt.Sprintf(format, args...)}
}

// importPath returns what an import declaration names.
func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value // the parser lets only valid ones through
	}
	return p
}

// importName returns the name by which the file knows the package at path, or "".
func (f *File) importName(importedPath string) string {
	for _, spec := range f.Tree.Imports {
		if importPath(spec) != importedPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importedPath)
	}
	return ""
}
