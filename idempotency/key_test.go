package idempotency

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		value, want string // "": malformed
	}{
		{`"8e03978e-40d5-43dd-bc93-6894a57f9324"`, "8e03978e-40d5-43dd-bc93-6894a57f9324"},
		{`8e03978e-40d5-43dd-bc93-6894a57f9324`, "8e03978e-40d5-43dd-bc93-6894a57f9324"},
		{` "in blanks" `, "in blanks"},
		{`"with \"quotes\" and \\"`, `with "quotes" and \`},
		{`"a, b; c"`, "a, b; c"},
		{`order:17/{eu}%20`, "order:17/{eu}%20"},
		{strings.Repeat("k", MaxKeyLen), strings.Repeat("k", MaxKeyLen)},
		{strings.Repeat("k", MaxKeyLen+1), ""},
		{`"` + strings.Repeat(`\"`, MaxKeyLen) + `"`, strings.Repeat(`"`, MaxKeyLen)},
		{``, ""},
		{`""`, ""},
		{`"`, ""},
		{`"open`, ""},
		{`"open\"`, ""},
		{`"ends in a backslash\`, ""},
		{`"unknown \n escape"`, ""},
		{`"a";version=1`, ""},
		{`"a" "b"`, ""},
		{`a, b`, ""},
		{`a;b`, ""},
		{`a"b`, ""},
		{`a\b`, ""},
		{"\"tab\there\"", ""},
		{`"ключ"`, ""},
		{"\x7f", ""},
	} {
		got, err := parseKey(tc.value)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("parseKey(%q) = %q, %v, want %q", tc.value, got, err, tc.want)
		}
	}
}

func TestKeyOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		headers [][2]string
		want    string
		err     error
	}{
		{"none", nil, "", errMissing},
		{"one", [][2]string{{"Idempotency-Key", `"a"`}}, "a", nil},
		{"the older header", [][2]string{{"X-Idempotency-Key", "a"}}, "a", nil},
		{"both, the same", [][2]string{{"Idempotency-Key", `"a"`}, {"X-Idempotency-Key", "a"}}, "a", nil},
		{"both, different", [][2]string{{"Idempotency-Key", "a"}, {"X-Idempotency-Key", "b"}}, "", errMalformed},
		{"twice, different", [][2]string{{"Idempotency-Key", "a"}, {"Idempotency-Key", "b"}}, "", errMalformed},
		{"the second malformed", [][2]string{{"Idempotency-Key", "a"}, {"X-Idempotency-Key", `"`}}, "", errMalformed},
		{"empty", [][2]string{{"Idempotency-Key", ""}}, "", errMalformed},
	} {
		h := make(http.Header)
		for _, pair := range tc.headers {
			h.Add(pair[0], pair[1])
		}
		if got, err := keyOf(h); got != tc.want || err != tc.err {
			t.Errorf("%s: keyOf() = %q, %v, want %q, %v", tc.name, got, err, tc.want, tc.err)
		}
	}
}

// FuzzParseKey checks that a key is within the limits, and is found again when it is quoted.
func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{`"a"`, `a`, `"\\\""`, `""`, `"a`, `a,b`, "\x00", `"é"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := parseKey(value)
		if err != nil {
			if key != "" {
				t.Fatalf("parseKey(%q) = %q with the error %v", value, key, err)
			}
			return
		}
		if key == "" || len(key) > MaxKeyLen || strings.ContainsFunc(key, func(r rune) bool { return r < 32 || r > 126 }) {
			t.Fatalf("parseKey(%q) = %q, which is out of the limits", value, key)
		}
		if again, err := parseKey(strconv.Quote(key)); err != nil || again != key {
			t.Fatalf("parseKey(%q) = %q, %v, want the key that was quoted", strconv.Quote(key), again, err)
		}
	})
}
