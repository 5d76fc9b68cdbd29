package config

import (
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want time.Duration
	}{
		{"0", 0},
		{"0d", 0},
		{"250ms", 250 * time.Millisecond},
		{"1h30m", 90 * time.Minute},
		{"7d", 168 * time.Hour},
		{"1d12h", 36 * time.Hour},
		{"1d0.5s", 24*time.Hour + 500*time.Millisecond},
		{"-1s", -time.Second},
		{"-1d1h", -25 * time.Hour},
		{"106751d23h47m16.854775807s", 1<<63 - 1},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			t.Parallel()
			if got, err := ParseDuration(tt.in); err != nil || got != tt.want {
				t.Errorf("ParseDuration() = %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

func TestParseDuration_Refused(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"", "5", "d", "-d", "1.5d", "+1d", "--1d", "1d-1h", "1d+1h", "1d5", "1h1d", "1d1d", "7 d", "7D", "week",
		"106752d", "106751d24h", "4294967295d", "4294967296d", "99999999999999999999d",
	} {
		if got, err := ParseDuration(in); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", in, got)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"7d", "1d12h", "5s", "-1d1h", "106751d23h47m16.854775807s", "1d-1h", "d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseDuration(s)
		if err != nil {
			return
		}
		if strings.HasPrefix(s, "-") == (got > 0) && got != 0 {
			t.Errorf("ParseDuration(%q) = %v has the wrong sign", s, got)
		}
		days, rest, ok := strings.Cut(s, "d")
		if !ok {
			rest, days = s, ""
		}
		if want, goErr := time.ParseDuration(s); days == "" && (goErr != nil || got != want) {
			t.Errorf("ParseDuration(%q) = %v, time.ParseDuration() = %v, %v", s, got, want, goErr)
		}
		if part, goErr := time.ParseDuration(rest); days != "" && rest != "" && (goErr != nil || got.Abs()%day != part%day) {
			t.Errorf("ParseDuration(%q) = %v, but its end is %v", s, got, part)
		}
	})
}
