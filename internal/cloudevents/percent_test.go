package cloudevents

import (
	"testing"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":         "",
		"a-b_c/d":  "a-b_c/d",
		`Euro € 😀`: "Euro%20%E2%82%AC%20%F0%9F%98%80", // the example of the specification
		`100%`:     "100%25",
		`"x"`:      "%22x%22",
		"\r\n\x7f": "%0D%0A%7F",
	} {
		if got := Escape(in); got != want {
			t.Errorf("Escape(%q) = %q, want %q", in, got, want)
		}
		if got, err := Unescape(want); err != nil || got != in {
			t.Errorf("Unescape(%q) = %q, %v, want %q", want, got, err, in)
		}
	}
}

func TestUnescape_ForeignValues(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"a \"b\" \\c"`: `a "b" \c`,
		"a b":           "a b",
		"%e2%82%ac":     "€",
		"%41":           "A",
		"100%":          "100%",
		"%zz%4":         "%zz%4",
		"ü":             "ü",
	} {
		if got, err := Unescape(in); err != nil || got != want {
			t.Errorf("Unescape(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"%C0%A0", "\xff", "%ff"} {
		if got, err := Unescape(in); err == nil || !utf8.ValidString(got) {
			t.Errorf("Unescape(%q) = %q, %v, want an error", in, got, err)
		}
	}
}
