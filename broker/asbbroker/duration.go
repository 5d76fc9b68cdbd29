package asbbroker

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// isoDuration is a duration of ISO 8601 as the service writes it: days, hours, minutes, seconds.
var isoDuration = regexp.MustCompile(`^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$`)

// parseDuration returns 0 for nil, and the longest duration for what is longer or no duration:
// "forever" is P10675199DT2H48M5.4775807S.
func parseDuration(s *string) time.Duration {
	const longest = time.Duration(1<<63 - 1)
	if s == nil || *s == "" {
		return 0
	}
	parts := isoDuration.FindStringSubmatch(*s)
	if parts == nil {
		return longest
	}
	seconds := 0.0
	for i, unit := range []float64{24 * 60 * 60, 60 * 60, 60, 1} {
		if n, err := strconv.ParseFloat(parts[i+1], 64); err == nil {
			seconds += n * unit
		}
	}
	if seconds >= longest.Seconds() {
		return longest
	}
	return time.Duration(seconds * float64(time.Second))
}

func formatDuration(d time.Duration) string {
	return fmt.Sprintf("PT%gS", d.Seconds())
}
