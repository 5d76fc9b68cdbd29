package deadletter

import (
	"strings"
	"testing"
)

// TestFingerprint_Frozen holds the names of groups: letters that were written before stay in
// their groups.
func TestFingerprint_Frozen(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		origin          Origin
		name, kind, err string
		want            string
	}{
		{FromRelay, "orders", "order.created", "queue orders-17 is full", "0431c68ce1a3f46c"},
		{FromConsumer, "billing", "order.created", "card expired", "f54a16b48d3facfe"},
		{FromConsumer, "", "", "", "8330106176e39b35"},
	} {
		if got := Fingerprint(tt.origin, tt.name, tt.kind, tt.err); got != tt.want {
			t.Errorf("Fingerprint(%s, %q, %q, %q) = %s, want %s", tt.origin, tt.name, tt.kind, tt.err, got, tt.want)
		}
	}
}

// TestFingerprint_Parts: each part counts, and none runs into the next.
func TestFingerprint_Parts(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, f := range []string{
		Fingerprint(FromRelay, "ab", "c", "d"), Fingerprint(FromConsumer, "ab", "c", "d"), Fingerprint(FromRelay, "a", "bc", "d"),
		Fingerprint(FromRelay, "ab", "cd", ""), Fingerprint(FromRelay, "ab", "c", "e"),
	} {
		if seen[f] || len(f) != 16 {
			t.Errorf("fingerprint %s is not one of its own, of 16 digits", f)
		}
		seen[f] = true
	}
}

func TestNormalizeError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"no route", "no route"},
		{"queue orders-17 is full", "queue orders-<n> is full"},
		{"dial tcp 10.0.3.7:5672: connect: connection refused", "dial tcp <n>: connect: connection refused"},
		{`unknown topic "orders.eu": refused`, "unknown topic <text>: refused"},
		{"it's gone, and 'that' is all", "it's gone, and <text> is all"},
		{"order 7d444840-9dc0-11d1-b245-5ffdce74fad2 is unknown", "order <id> is unknown"},
		{"message 01ARZ3NDEKTSV4RRFFQ69G5FAV is unknown", "message <id> is unknown"},
		{"frame at 0x7ffd1c", "frame at <n>"},
		{"took 1.5s", "took <n>s"},
		{"  two\n\tlines ", "two lines"},
		{"bad byte \xff here", "bad byte here"},
		{"café is dead", "café is dead"},
		{strings.Repeat("ü", 150), strings.Repeat("ü", 100)},
	} {
		if got := NormalizeError(tt.text); got != tt.want {
			t.Errorf("NormalizeError(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}
