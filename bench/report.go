package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

func (e experiment) print(w io.Writer, rows []row) {
	fmt.Fprintf(w, "\n%s\n", e.title)
	for _, t := range tables(rows) {
		t.print(w)
	}
}

// write writes the section of an experiment into the results, and its picture next to them.
func (b *bench) write(e experiment, rows []row) error {
	section := markdown(e, rows, b.surroundings)
	if e.chart != "" {
		picture := e.name + ".svg"
		if err := os.WriteFile(filepath.Join(b.out, picture), []byte(chart(e.title, e.chart, rows)), 0o644); err != nil {
			return err
		}
		section = fmt.Sprintf("![%s](%s)\n\n%s", e.title, picture, section)
	}
	return replaceSection(filepath.Join(b.out, "README.md"), e.name, section)
}

// table holds the rows of one heading.
type table struct {
	name string
	rows []row
}

// tables groups rows by heading, in the order in which headings first appear.
func tables(rows []row) []table {
	var list []table
	at := make(map[string]int)
	for _, r := range rows {
		i, ok := at[r.table]
		if !ok {
			i = len(list)
			at[r.table] = i
			list = append(list, table{name: r.table})
		}
		list[i].rows = append(list[i].rows, r)
	}
	return list
}

// columns are the names of the figures, in the order in which they first appear.
func (t table) columns() []string {
	var names []string
	seen := make(map[string]bool)
	for _, r := range t.rows {
		for _, f := range r.figures {
			if !seen[f.name] {
				seen[f.name] = true
				names = append(names, f.name)
			}
		}
	}
	return names
}

// cells returns the cells of a row for the columns; missing ones are empty.
func (r row) cells(columns []string) []string {
	cells := make([]string, len(columns))
	for i, name := range columns {
		for _, f := range r.figures {
			if f.name == name {
				cells[i] = f.String()
			}
		}
	}
	return cells
}

func (t table) print(w io.Writer) {
	columns := t.columns()
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "\n%s\t%s\n", t.name, strings.Join(columns, "\t"))
	for _, r := range t.rows {
		fmt.Fprintf(out, "  %s\t%s\t%s\n", r.name, strings.Join(r.cells(columns), "\t"), r.note)
	}
	_ = out.Flush() // a broken standard output is noticed elsewhere
}

// markdown returns the section of an experiment.
func markdown(e experiment, rows []row, surroundings string) string {
	var s strings.Builder
	for _, t := range tables(rows) {
		columns := t.columns()
		fmt.Fprintf(&s, "| %s | %s |\n|---|%s\n", t.name, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
		for _, r := range t.rows {
			fmt.Fprintf(&s, "| %s | %s |\n", r.name, strings.Join(r.cells(columns), " | "))
		}
		s.WriteString("\n")
		for _, r := range t.rows {
			if r.note != "" {
				fmt.Fprintf(&s, "- %s: %s.\n", r.name, r.note)
			}
		}
		s.WriteString("\n")
	}
	for _, r := range rows {
		if r.text != "" {
			fmt.Fprintf(&s, "%s, %s:\n\n```text\n%s\n```\n\n", r.table, r.name, strings.TrimSpace(r.text))
		}
	}
	fmt.Fprintf(&s, "Measured on %s.\n", surroundings)
	return strings.ReplaceAll(s.String(), "\n\n\n", "\n\n")
}

var errNoMarks = errors.New("the file has no such marks")

// replaceSection replaces the text between the marks of a section.
func replaceSection(file, name, section string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	begin, end := []byte("<!-- bench:"+name+" -->\n"), []byte("<!-- end:"+name+" -->")
	before, rest, ok := bytes.Cut(text, begin)
	_, after, closed := bytes.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s: %s … %s: %w", file, bytes.TrimSpace(begin), end, errNoMarks)
	}
	return os.WriteFile(file, bytes.Join([][]byte{before, begin, []byte(section), end, after}, nil), 0o644)
}
