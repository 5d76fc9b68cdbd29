package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
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

// writeTable leaves columns out in which no row has anything. No line ends with blanks.
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

// thousands writes a count so that a person sees how large it is. Numbers that identify something are
// written as they are typed.
func thousands[N int | int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// capital returns text with its first letter, of ASCII, in upper case.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
