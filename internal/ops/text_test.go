package ops_test

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/ops"
)

func TestText(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ got, want string }{
		{ops.Count(7), "7"},
		{ops.Count(int64(1234567)), "1,234,567"},
		{ops.Count(-123), "-123"},
		{ops.Count(-1234), "-1,234"},
		{ops.Plural(1, "message"), "1 message"},
		{ops.Plural(0, "message"), "0 messages"},
		{ops.Plural(12345, "message"), "12,345 messages"},
		{ops.Size(1), "1 byte"},
		{ops.Size(1023), "1,023 bytes"},
		{ops.Size(1536), "1.5 KiB"},
		{ops.Size(5 << 20), "5.0 MiB"},
		{ops.Moment(nil), ""},
		{ops.Moment(&time.Time{}), ""},
		{ops.Moment(&now), "2026-03-01 12:00:00Z"},
		{ops.Age(-time.Second), "0s"},
		{ops.Age(12 * time.Millisecond), "12ms"},
		{ops.Age(90 * time.Second), "1m30s"},
		{ops.Age(90 * time.Minute), "1h30m"},
		{ops.Age(48 * time.Hour), "2d"},
		{ops.Age(51 * time.Hour), "2d3h"},
		{ops.Ago(now, now), "just now"},
		{ops.Ago(now.Add(-3*time.Minute), now), "3m0s ago"},
		{ops.Ago(now.Add(2*time.Hour), now), "in 2h0m"},
		{ops.Short("a\n b\tc", 10), "a b c"},
		{ops.Short("abcdef", 4), "abc…"},
		{ops.Short("ключ", 4), "ключ"},
		{ops.Short("a\xff", 4), "a\ufffd"},
		{ops.Ranges(nil), ""},
		{ops.Ranges([]int{0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8"},
		{ops.Capital("dead"), "Dead"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}
