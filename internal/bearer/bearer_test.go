package bearer

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestParseHash(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-0123456789abcdef"
	plain, err := ParseHash(secret)
	if err != nil {
		t.Fatal(err)
	}
	hashed, err := ParseHash("sha256:AF9DC8C28A92C32B94A9C2D4B8C0CFE1EFD68F4F4B2BC0BF9F4AE9B20D0D5C9C")
	if err != nil || hashed == plain {
		t.Errorf("ParseHash() of another hash = %x, %v", hashed, err)
	}
	for _, bad := range []string{"", "s3cr3t", "sha256:", "sha256:s3cr3t", "sha256:" + strings.Repeat("a", 62)} {
		if _, err := ParseHash(bad); err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("ParseHash(%q) = %v, want an error that does not quote it", bad, err)
		}
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{"Bearer abc": "abc", "bearer abc": "abc", "Basic abc": "", "Bearer": "", "": ""} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", header)
		if got, ok := Of(r); ok != (want != "") || ok && got != want {
			t.Errorf("Of(%q) = %q, %v, want %q", header, got, ok, want)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	var tokens []Hash
	for _, secret := range []string{strings.Repeat("a", 20), strings.Repeat("b", 20)} {
		hash, err := ParseHash(secret)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, hash)
	}
	itself := func(h *Hash) *Hash { return h }
	if got := Find(tokens, itself, strings.Repeat("b", 20)); got != &tokens[1] {
		t.Errorf("Find(the second) = %p", got)
	}
	if got := Find(tokens, itself, strings.Repeat("c", 20)); got != nil {
		t.Errorf("Find(nobody's) = %p, want nil", got)
	}
}
