// Package migrate reads the numbered SQL files that stores embed and splits them into
// statements. Running them is the store's own business, because locks differ.
package migrate

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Migration is one numbered step of a schema.
type Migration struct {
	Version int
	Name    string
	Up      string // SQL text with names rendered
	Down    string

	statements []string
}

// Statements returns the statements of Up, one by one.
func (m Migration) Statements() []string { return m.statements }

// Load reads files named like 001_name.up.sql and 001_name.down.sql from dir, ordered by
// number, with names replaced by render. Numbers must run from 1 without a gap and each up
// file must have its down file.
func Load(files fs.FS, dir string, render func(string) string) ([]Migration, error) {
	names, err := fs.Glob(files, dir+"/*.up.sql")
	if err != nil {
		return nil, err
	}
	list := make([]Migration, 0, len(names))
	for _, name := range names {
		m, err := load(files, name, render)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Migration) int { return cmp.Compare(a.Version, b.Version) })
	for i, m := range list {
		if m.Version != i+1 {
			return nil, fmt.Errorf("migration %s has number %d, want %d", m.Name, m.Version, i+1)
		}
	}
	return list, nil
}

func load(files fs.FS, path string, render func(string) string) (Migration, error) {
	base := strings.TrimSuffix(path[strings.LastIndex(path, "/")+1:], ".up.sql")
	number, _, _ := strings.Cut(base, "_")
	version, err := strconv.Atoi(number)
	if err != nil {
		return Migration{}, fmt.Errorf("migration %s has no number: %w", base, err)
	}
	up, err := fs.ReadFile(files, path)
	if err != nil {
		return Migration{}, err
	}
	down, err := fs.ReadFile(files, strings.TrimSuffix(path, ".up.sql")+".down.sql")
	if err != nil {
		return Migration{}, err
	}
	m := Migration{Version: version, Name: base, Up: render(string(up)), Down: render(string(down))}
	for _, stmt := range Split(string(up)) { // before names are rendered: they may hold anything
		m.statements = append(m.statements, render(stmt))
	}
	return m, nil
}

// Split cuts SQL text into statements: each ends with a semicolon at the end of a line, a
// comment aside, outside a body quoted by $body$. Text without a statement, such as a trailing comment, is
// dropped.
func Split(text string) []string {
	var list []string
	var current strings.Builder
	inBody := false
	for line := range strings.Lines(text) {
		current.WriteString(line)
		if strings.Count(line, "$body$")%2 == 1 {
			inBody = !inBody
		}
		code, _, _ := strings.Cut(line, "--")
		if !inBody && strings.HasSuffix(strings.TrimSpace(code), ";") {
			list = append(list, strings.TrimSpace(current.String()))
			current.Reset()
		}
	}
	return list
}
