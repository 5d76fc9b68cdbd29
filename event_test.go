package waybill

import (
	"strings"
	"testing"
)

func TestMessage_Alias(t *testing.T) {
	t.Parallel()
	for typ, want := range map[string]string{
		"order.placed":     "order.placed",
		"order.placed@v2":  "order.placed",
		"order.placed@v10": "order.placed",
		"order.placed@v1":  "order.placed@v1", // never written so: kept as it is
		"order@vx":         "order@vx",
		"@v2":              "@v2",
		"a@v2@v3":          "a@v2",
	} {
		if got := (&Message{Type: typ}).Alias(); got != want {
			t.Errorf("Alias() of %q = %q, want %q", typ, got, want)
		}
	}
}

func TestNewEventType_RefusesBadNames(t *testing.T) {
	t.Parallel()
	for _, bad := range []struct {
		name    string
		version int
	}{{"", 1}, {"a@b", 1}, {"a", 0}, {strings.Repeat("x", MaxTypeLen), 2}} {
		func() {
			defer func() { _ = recover() }()
			NewEventType[int](bad.name, bad.version)
			t.Errorf("NewEventType(%q, %d) did not panic", bad.name, bad.version)
		}()
	}
}

func TestDecode_DoesNotQuoteThePayload(t *testing.T) {
	t.Parallel()
	typ := NewEventType[struct{ N int }]("n", 1)
	for _, payload := range []string{`{"N":"secret"}`, `secret`, `{"N":1`, ``} {
		_, err := typ.Decode(&Message{Payload: []byte(payload)})
		if !IsPermanent(err) || ReasonOf(err) != ReasonMalformed {
			t.Errorf("Decode(%q) = %v, want permanent, malformed", payload, err)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error quotes the payload: %v", err)
		}
	}
}
