package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestModule is the check itself: no rule is broken anywhere in the module.
func TestModule(t *testing.T) {
	t.Parallel()
	files := loadModule(t)
	for _, rule := range []struct {
		name  string
		check func([]*File) []Finding
	}{
		{"imports", CheckImports},
		{"linked", CheckLinked},
		{"comments", CheckComments},
		{"code", CheckCode},
		{"bounds", CheckBounds},
		{"patience", CheckPatience},
		{"sizes", CheckSizes},
	} {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			for _, finding := range rule.check(files) {
				t.Error(finding)
			}
		})
	}
	for _, finding := range LongFiles(files) {
		t.Log(finding)
	}
}

func TestLoad_FindsTheModule(t *testing.T) {
	t.Parallel()
	var paths []string
	for _, f := range loadModule(t) {
		paths = append(paths, f.Path)
	}
	for _, want := range []string{"message.go", "contract/source.go", "internal/archtest/tree_test.go"} {
		if !slices.Contains(paths, want) {
			t.Errorf("Load() does not find %s", want)
		}
	}
}

func TestLoad_LeavesOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{
		"go.mod", "a.go", "relay/b.go", "relay/b_test.go",
		"relay/testdata/c.go", "vendor/d.go", ".hidden/e.go", "_old/f.go", "_g.go", ".h.go",
		"bench/go.mod", "bench/main.go", "relay/notes.txt",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("package p\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Path)
	}
	if want := []string{"a.go", "relay/b.go", "relay/b_test.go"}; !slices.Equal(got, want) {
		t.Errorf("Load() found %v, want %v", got, want)
	}
}

func TestLoad_Malformed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("Load() = nil, want an error")
	}
}

func loadModule(t *testing.T) []*File {
	t.Helper()
	files, err := Load(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// source is the text of one file of a made-up module.
type source struct{ path, text string }

// run parses sources and returns what check finds in them, one text per finding.
func run(t *testing.T, check func([]*File) []Finding, sources ...source) []string {
	t.Helper()
	var files []*File
	for _, s := range sources {
		f, err := Parse(s.path, []byte(s.text))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	found := []string{}
	for _, finding := range check(files) {
		found = append(found, finding.String())
	}
	return found
}

// wantFindings compares findings with what is wanted, in the same order.
func wantFindings(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
