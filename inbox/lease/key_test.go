package lease

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/waybill-go/waybill"
)

// TestLeaseKeys (AS-57): what keys look like is a contract with programs in other languages, whose tests
// read the same file.
func TestLeaseKeys(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/leasekeys.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, Bus, Group string
		SourceInKey      bool
		Event            struct{ Tenant, Source, Type, ID, IdempotencyKey string }
		Key              string
	}
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) == 0 {
		t.Fatalf("testdata/leasekeys.json has %d keys, %v", len(cases), err)
	}
	for _, tc := range cases {
		e := tc.Event
		k := KeyOf(tc.Bus, tc.Group, &waybill.Message{Tenant: e.Tenant, Source: e.Source, Type: e.Type, ID: e.ID, IdempotencyKey: e.IdempotencyKey})
		if tc.SourceInKey {
			k.Source = e.Source
		}
		if got := k.String(); got != tc.Key {
			t.Errorf("%s: %+v is %q, want %q", tc.Name, k, got, tc.Key)
		}
	}
}

func TestParseLeaseKey_Refuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a", "a:b:c", "a:b:c:d:e:f:g", "a:b:c:%", "a:b:c:%3a", "default:b:g:s:a:m", ":b:g:s:a:m", "b:g::a:m"} {
		if k, err := ParseKey(s); err == nil {
			t.Errorf("%q is %+v, want an error", s, k)
		}
	}
}

func FuzzLeaseKey(f *testing.F) {
	f.Add("", "b", "g", "", "a", "m", "", "b", "g", "", "a:m", "")
	f.Add("t", "b", "g", "s", "a", "m", "default", "t:b", "g", "s", "a", "%3Am")
	f.Fuzz(func(t *testing.T, t1, b1, g1, s1, a1, m1, t2, b2, g2, s2, a2, m2 string) {
		one := Key{Tenant: orDefault(t1), Bus: b1, Group: g1, Source: s1, Alias: a1, Message: m1}
		two := Key{Tenant: orDefault(t2), Bus: b2, Group: g2, Source: s2, Alias: a2, Message: m2}
		if one != two && one.String() == two.String() {
			t.Fatalf("%+v and %+v are both %q", one, two, one.String())
		}
		got, err := ParseKey(one.String())
		if err != nil {
			t.Fatalf("%q of %+v does not parse: %v", one.String(), one, err)
		}
		if one.Raw() == one.String() && got != one {
			t.Fatalf("%q of %+v is parsed as %+v", one.String(), one, got)
		}
		if got.Tenant != one.Tenant || got.Bus != one.Bus || got.Group != one.Group {
			t.Fatalf("%q of %+v is parsed as %+v: another owner", one.String(), one, got)
		}
	})
}

func orDefault(tenant string) string {
	if tenant == "" {
		return "default"
	}
	return tenant
}
