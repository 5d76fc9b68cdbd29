package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// printJSON prints v for programs.
func (p *program) printJSON(v any) error {
	enc := json.NewEncoder(p.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printTable prints rows below their headings in aligned columns.
func (p *program) printTable(headings []string, rows [][]string) error {
	return writeTable(p.stdout, headings, rows)
}

// writeTable leaves columns out in which no row has anything.
func writeTable(out io.Writer, headings []string, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, row := range append([][]string{headings}, rows...) {
		var cells []string
		for column, cell := range row {
			if !slices.ContainsFunc(rows, func(r []string) bool { return r[column] != "" }) {
				continue
			}
			if i > 0 {
				cell = clean(cell)
			}
			cells = append(cells, cell)
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	return w.Flush()
}

// printFields prints names and values, one pair per line; those without a value are left
// out.
func (p *program) printFields(fields [][2]string) error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", f[0], clean(f[1]))
		}
	}
	return w.Flush()
}

// clean replaces what could steer a terminal or break a table: control characters, and marks
// that turn the direction of writing. Keys, errors and headers come from anywhere.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
}

// moment shows a point in time to a person, in UTC, and "" for none.
func moment(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// age shows a duration to a person: the two largest units.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < day:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	hours := d.Round(time.Hour)
	if hours%day == 0 {
		return fmt.Sprintf("%dd", hours/day)
	}
	return fmt.Sprintf("%dd%dh", hours/day, hours%day/time.Hour)
}

// short cuts a text for a table, at a rune boundary, and puts it in one line.
func short(text string, limit int) string {
	text = strings.Join(strings.Fields(text), " ")
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-1]) + "…"
}

// plural returns "1 message" or "12,345 messages".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// thousands writes a number so that a person sees how large it is.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// capital returns text with its first letter, of ASCII, in upper case.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
