package ops

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Count formats a count for people: "12,345". Numbers that identify something are not formatted.
func Count[N ~int | ~int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Plural returns "1 message" or "12,345 messages".
func Plural[N ~int | ~int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

// Size is a number of bytes.
func Size(n int) string {
	switch {
	case n < 1<<10:
		return Plural(n, "byte")
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// Moment is a point in time, in UTC, and "" for none.
func Moment(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// Age is a duration: the two largest units.
func Age(d time.Duration) string {
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

// Ago says how long before now a time was, or how long after now it is.
func Ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case d < -time.Second:
		return "in " + Age(-d)
	case d < time.Second:
		return "just now"
	default:
		return Age(d) + " ago"
	}
}

// Short cuts a text to a number of characters and puts it in one line.
func Short(text string, limit int) string {
	if len(text) > 8*limit {
		text = text[:8*limit] // characters have at most 4 bytes; the rest may be spaces
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\ufffd")), " ")
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}

// Ranges formats ascending numbers briefly: "0-3, 7, 9-63".
func Ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part += "-" + strconv.Itoa(numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// Capital returns text with its first letter, of ASCII, in upper case.
func Capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// nonZero formats a count, and "" for none.
func nonZero[N ~int | ~int64](n N) string {
	if n == 0 {
		return ""
	}
	return Count(n)
}
