package broker

import "testing"

func TestPattern(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern Pattern
		name    string
		want    bool
	}{
		{"order.*", "order.placed", true},
		{"order.*", "order.item.added", true},
		{"order.*", "order", false},
		{"order.*", "orders.placed", false},
		{"order", "order", true},
		{"order", "order.placed", false},
		{"*", "anything", true},
		{"*", "", true},
	} {
		if got := c.pattern.Match(c.name); got != c.want {
			t.Errorf("Pattern(%q).Match(%q) = %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
	for pattern, valid := range map[Pattern]bool{"a.*": true, "*": true, "a": true, "": false, "a*b": false, "**": false, "*.a": false} {
		if err := pattern.Validate("topics"); (err == nil) != valid {
			t.Errorf("Pattern(%q).Validate() = %v, want valid: %v", pattern, err, valid)
		}
	}
}
