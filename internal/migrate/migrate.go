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

	"github.com/waybill-go/waybill"
)

// Migration is one numbered step of a schema.
type Migration struct {
	Version int
	Name    string
	Up      string // SQL text
	Down    string

	statements []string
}

// Statements returns the statements of Up, one by one.
func (m Migration) Statements() []string { return m.statements }

// Rendered returns a list with the names of tables replaced by render.
func Rendered(list []Migration, render func(string) string) []Migration {
	list = slices.Clone(list)
	for i, m := range list {
		list[i].Up, list[i].Down, list[i].statements = render(m.Up), render(m.Down), nil
		for _, stmt := range m.statements {
			list[i].statements = append(list[i].statements, render(stmt))
		}
	}
	return list
}

// Load reads files named like 001_name.up.sql and 001_name.down.sql from dir, ordered by
// number. Names stay as they are in the files, because a rendered one may hold anything, even what
// ends a statement. Numbers must run from 1 without a gap and each up file must have its down file.
func Load(files fs.FS, dir string) ([]Migration, error) {
	names, err := fs.Glob(files, dir+"/*.up.sql")
	if err != nil {
		return nil, err
	}
	list := make([]Migration, 0, len(names))
	for _, name := range names {
		m, err := load(files, name)
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

func load(files fs.FS, path string) (Migration, error) {
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
	return Migration{version, base, string(up), string(down), Split(string(up))}, nil
}

// VersionError reports a schema that this release can't work with.
type VersionError struct{ Version, Oldest, Newest int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("schema version is %d, this release works with %d to %d; %s", e.Version, e.Oldest, e.Newest, e.Advice())
}

// Advice returns what to do about it.
func (e *VersionError) Advice() string {
	if e.Version > e.Newest {
		return "use a release that knows it"
	}
	return "run: waybill migrate"
}

// CheckVersion returns a [*VersionError] if a schema of the given version is older than oldest, or
// newer than the last of list.
func CheckVersion(list []Migration, version, oldest int) error {
	if version < oldest || version > len(list) {
		return &VersionError{version, oldest, len(list)}
	}
	return nil
}

// Target returns the version to migrate to: the one that is asked for, or the newest for 0.
func Target(list []Migration, asked int) (int, error) {
	if asked < 0 || asked > len(list) {
		return 0, &waybill.InvalidError{Field: "Version", Reason: fmt.Sprintf("is %d, the newest is %d", asked, len(list))}
	}
	return cmp.Or(asked, len(list)), nil
}

// CheckSource returns an error if source can not be the source of messages.
func CheckSource(source string) error {
	if len(source) > waybill.MaxSourceLen || strings.ContainsRune(source, 0) {
		return &waybill.InvalidError{Field: "Source", Reason: fmt.Sprintf("has %d bytes or a NUL byte, the limit is %d", len(source), waybill.MaxSourceLen)}
	}
	return nil
}

// Up runs the statements of list that lead from one version to another with exec, unless that
// version has been reached already. It returns the version that the schema has then.
func Up(list []Migration, from, to int, exec func(stmt string) error) (int, error) {
	for ; from < to; from++ {
		for _, stmt := range list[from].Statements() {
			if err := exec(stmt); err != nil {
				return 0, fmt.Errorf("%s: %w", list[from].Name, err)
			}
		}
	}
	return from, nil
}

// Split cuts SQL text into statements: each ends with a semicolon at the end of a line, a
// comment aside, outside a body quoted by $body$. After a line such as "DELIMITER //", which is for
// the mysql client only, it ends with that instead. Text without a statement, such as a trailing
// comment, is dropped.
func Split(text string) []string {
	var list []string
	var current strings.Builder
	inBody, delimiter := false, ";"
	for line := range strings.Lines(text) {
		if next, ok := strings.CutPrefix(line, "DELIMITER "); ok {
			delimiter = strings.TrimSpace(next)
			continue
		}
		current.WriteString(line)
		if strings.Count(line, "$body$")%2 == 1 {
			inBody = !inBody
		}
		code, _, _ := strings.Cut(line, "--")
		if !inBody && strings.HasSuffix(strings.TrimSpace(code), delimiter) {
			list = append(list, strings.TrimSuffix(strings.TrimSpace(current.String()), strings.TrimPrefix(delimiter, ";")))
			current.Reset()
		}
	}
	return list
}
