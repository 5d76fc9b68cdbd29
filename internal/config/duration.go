package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseDuration parses a duration in Go's syntax, such as "1h30m", optionally preceded
// by a whole number of days of 24 hours: "7d", "1d12h".
func ParseDuration(s string) (time.Duration, error) {
	unsigned, negative := strings.CutPrefix(s, "-")
	number, rest, hasDays := strings.Cut(unsigned, "d")
	if !hasDays {
		return parseGo(s, s)
	}
	days, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return 0, notDuration(s)
	}
	d := time.Duration(days)
	if d > math.MaxInt64/day {
		return 0, fmt.Errorf("%s is longer than any duration", s)
	}
	d *= day
	if rest != "" {
		if rest[0] == '-' || rest[0] == '+' {
			return 0, notDuration(s)
		}
		more, err := parseGo(rest, s)
		if err != nil {
			return 0, err
		}
		if d > math.MaxInt64-more {
			return 0, fmt.Errorf("%s is longer than any duration", s)
		}
		d += more
	}
	if negative {
		d = -d
	}
	return d, nil
}

// parseGo parses s; the error is about whole, of which s may be a part.
func parseGo(s, whole string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, notDuration(whole)
	}
	return d, nil
}

func notDuration(s string) error {
	return fmt.Errorf("%q is not a duration; write it like 7d, 1h30m, 5s or 250ms", s)
}
