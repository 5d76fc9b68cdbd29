package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/waybill-go/waybill/internal/ops"
)

// printJSON prints v as JSON.
func (p *program) printJSON(v any) error {
	enc := json.NewEncoder(p.stdout)
	enc.SetEscapeHTML(false)
	if !p.oneLine {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}

// printTable prints rows below their headings in aligned columns.
func (p *program) printTable(headings []string, rows [][]string) error {
	return writeTable(p.stdout, headings, rows)
}

// writeTable omits columns that are empty in all rows. No line ends with blanks.
func writeTable(out io.Writer, headings []string, rows [][]string) error {
	lines := make([]strings.Builder, len(rows)+1)
	for column, heading := range headings {
		cells := make([]string, len(lines))
		width := 0
		for i, row := range rows {
			cells[i+1] = clean(row[column])
			width = max(width, utf8.RuneCountInString(cells[i+1]))
		}
		if width == 0 {
			continue
		}
		cells[0], width = heading, max(width, utf8.RuneCountInString(heading))
		for i, cell := range cells {
			fmt.Fprintf(&lines[i], "%-*s  ", width, cell)
		}
	}
	var text strings.Builder
	for i := range lines {
		text.WriteString(strings.TrimRight(lines[i].String(), " ") + "\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

const (
	red, yellow = "\x1b[31m", "\x1b[33m"
	uncoloured  = "\x1b[0m"
)

// paint colours the severity that a line of a table begins with.
func (p *program) paint(table string) string {
	if !p.colours {
		return table
	}
	lines := strings.SplitAfter(table, "\n")
	for i, l := range lines {
		for severity, colour := range map[ops.Severity]string{ops.Problem: red, ops.Warning: yellow} {
			if rest, ok := strings.CutPrefix(l, string(severity)+" "); ok {
				lines[i] = colour + string(severity) + uncoloured + " " + rest
			}
		}
	}
	return strings.Join(lines, "")
}

// wantsColours reports whether the environment permits colours: https://no-color.org
func wantsColours(env []string) bool {
	return !slices.ContainsFunc(env, func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return name == "NO_COLOR" && value != "" || entry == "TERM=dumb"
	})
}

// printFields prints names and values, one pair per line; those without a value are omitted.
func (p *program) printFields(fields [][2]string) error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", f[0], clean(f[1]))
		}
	}
	return w.Flush()
}

// clean replaces what could control a terminal or break a table: control characters, and
// marks that change the direction of writing. Keys, errors and headers come from anywhere.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
}
