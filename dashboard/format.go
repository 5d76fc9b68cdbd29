package dashboard

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// stamp is a time as people read it, to the second in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// machine is a time as the attribute datetime has it.
func machine(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// ago says how long ago a time was, or how far ahead it is.
func ago(t time.Time) string {
	switch d := time.Since(t); {
	case d < -time.Second:
		return "in " + span(-d)
	case d < time.Second:
		return "just now"
	default:
		return span(d) + " ago"
	}
}

// span is a duration in words, rounded down to the largest unit in it.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return plural(int64(d/time.Second), "second")
	case d < time.Hour:
		return plural(int64(d/time.Minute), "minute")
	case d < 48*time.Hour:
		return plural(int64(d/time.Hour), "hour")
	}
	return plural(int64(d/(24*time.Hour)), "day")
}

// plural is a number with what it counts.
func plural(n any, noun string) string {
	if fmt.Sprint(n) == "1" {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// count is a number with its thousands set apart.
func count(n any) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:] // a narrow space that does not break
	}
	return s
}

// size is a number of bytes as people read it.
func size(n int) string {
	switch {
	case n < 1<<10:
		return plural(n, "byte")
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// short cuts a text to so many characters and leaves it in one line.
func short(limit int, s string) string {
	if len(s) > 8*limit {
		s = s[:8*limit] // characters have at most 4 bytes; the rest may be spaces
	}
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}

// ranges writes ascending numbers as "0–15, 17".
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part += "–" + strconv.Itoa(numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// bar is one column of a small chart.
type bar struct{ X, Y, Height int }

const chartHeight = 24

// bars draws the hours of a day, the tallest as high as the chart.
func bars(hours [24]int) []bar {
	most := 1
	for _, n := range hours {
		most = max(most, n)
	}
	columns := make([]bar, 0, len(hours))
	for i, n := range hours {
		height := n * chartHeight / most
		if n > 0 {
			height = max(height, 2)
		} else {
			height = 1 // the base line
		}
		columns = append(columns, bar{X: i * 5, Y: chartHeight - height, Height: height})
	}
	return columns
}
