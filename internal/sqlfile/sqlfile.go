// Package sqlfile reads SQL statements from files. A file consists of sections, each of which begins
// with a line that names a statement, or a fragment, which is a part of statements:
//
//	-- name: claim_ready
//	-- Reads what was never tried, from the lowest position on.
//	SELECT {message "o"} FROM {outbox} o WHERE {owns_lane "$2"} ORDER BY o.position LIMIT $1
//
//	-- fragment: owns_lane epoch
//	(SELECT epoch FROM {relay_lanes} WHERE lane = 0) = {.epoch}
//
// The text of a section is a [text/template] between braces. Every section is a function in it, which
// returns the text of that section; a fragment's parameters follow its name. Lines that begin with --
// are comments, which are left out.
package sqlfile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"text/template"
)

// Dialect is what a text may have between braces in addition to sections.
type Dialect struct {
	// Names stay in the text, with their braces: those of tables, which differ by store, and what is
	// filled in for each call.
	Names []string

	// Funcs return what is computed.
	Funcs template.FuncMap
}

// Statements are the texts of statements, by their names.
type Statements struct{ texts map[string]string }

// Load reads the sections in sql/*.sql of common and of own, and renders the statements. A section of
// own replaces one of common with the same name. A section without text means that there is no such
// statement.
//
// The error names a section that is wrong, and a fragment of own that nothing uses.
func Load(d Dialect, common, own fs.FS) (*Statements, error) {
	sections, err := read(common)
	if err != nil {
		return nil, err
	}
	overriding, err := read(own)
	if err != nil {
		return nil, err
	}
	maps.Copy(sections, overriding)
	if err := compile(d, sections); err != nil {
		return nil, err
	}
	s := &Statements{texts: make(map[string]string)}
	for name, sec := range sections {
		if sec.fragment {
			continue
		}
		if s.texts[name], err = sec.render(); err != nil {
			return nil, err
		}
	}
	return s, unused(overriding)
}

// compile parses the texts of sections.
func compile(d Dialect, sections map[string]*section) error {
	funcs := maps.Clone(d.Funcs)
	if funcs == nil {
		funcs = make(template.FuncMap)
	}
	for _, name := range d.Names {
		funcs[name] = func() string { return "{" + name + "}" }
	}
	for name, sec := range sections {
		if funcs[name] != nil {
			return fmt.Errorf("%s: there is something else of this name", sec)
		}
		funcs[name] = sec.call
	}
	all := template.New("").Delims("{", "}").Option("missingkey=error").Funcs(funcs)
	for _, sec := range sections {
		var err error
		if sec.template, err = all.New(sec.String()).Parse(sec.text); err != nil {
			return err
		}
	}
	return nil
}

// unused returns an error that names the fragments which no statement uses.
func unused(sections map[string]*section) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		if sec := sections[name]; sec.fragment && !sec.called {
			errs = append(errs, fmt.Errorf("%s: no statement uses it", sec))
		}
	}
	return errors.Join(errs...)
}

// section is a part of a file.
type section struct {
	file, name string
	fragment   bool
	params     []string
	text       string
	template   *template.Template
	called     bool // by another section
	open       bool // it is being rendered
}

func (s *section) String() string { return s.file + ": " + s.name }

// call is the function by which other texts use the section.
func (s *section) call(args ...any) (string, error) {
	s.called = true
	return s.render(args...)
}

func (s *section) render(args ...any) (string, error) {
	if len(args) != len(s.params) {
		return "", fmt.Errorf("%s: has %d parameters, not %d", s, len(s.params), len(args))
	}
	if s.open {
		return "", fmt.Errorf("%s: contains itself", s)
	}
	s.open = true
	defer func() { s.open = false }()
	values := make(map[string]any, len(args))
	for i, name := range s.params {
		values[name] = args[i]
	}
	var b strings.Builder
	err := s.template.Execute(&b, values)
	return strings.TrimSpace(b.String()), err
}

// read returns the sections of all files.
func read(fsys fs.FS) (map[string]*section, error) {
	files, err := fs.Glob(fsys, "sql/*.sql")
	if err != nil {
		return nil, err
	}
	sections := make(map[string]*section)
	for _, file := range files {
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, err
		}
		list, err := split(file, string(text))
		if err != nil {
			return nil, err
		}
		for _, sec := range list {
			if other := sections[sec.name]; other != nil {
				return nil, fmt.Errorf("%s: is in %s, too", sec, other.file)
			}
			sections[sec.name] = sec
		}
	}
	return sections, nil
}

// split returns the sections of a file.
func split(file, text string) ([]*section, error) {
	var list []*section
	var lines []string
	end := func() {
		if len(list) > 0 {
			list[len(list)-1].text = strings.TrimSpace(strings.Join(lines, "\n"))
		}
		lines = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \r\n")
		switch sec, err := heading(file, line); {
		case err != nil:
			return nil, err
		case sec != nil:
			end()
			list = append(list, sec)
		case strings.HasPrefix(strings.TrimSpace(line), "--"):
		case len(list) == 0 && line != "":
			return nil, fmt.Errorf("%s: begins with a text that has no name", file)
		default:
			lines = append(lines, line)
		}
	}
	end()
	return list, nil
}

// heading returns the section that a line begins, nil if it begins none.
func heading(file, line string) (*section, error) {
	words, isStatement := strings.CutPrefix(line, "-- name:")
	if !isStatement {
		var isFragment bool
		if words, isFragment = strings.CutPrefix(line, "-- fragment:"); !isFragment {
			return nil, nil
		}
	}
	fields := strings.Fields(words)
	if len(fields) == 0 || isStatement && len(fields) > 1 {
		return nil, fmt.Errorf("%s: %q: want a name, and parameters for a fragment alone", file, line)
	}
	return &section{file: file, name: fields[0], fragment: !isStatement, params: fields[1:]}, nil
}
