package inbox

import (
	"strings"
	"testing"
)

// TestAS57LeaseKeys: what keys look like is a contract with programs in other languages.
func TestAS57LeaseKeys(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		key  LeaseKey
		want string
	}{
		{LeaseKey{Bus: "rabbit", Group: "workers", Alias: "order.created", Message: "42"}, "rabbit:workers:order.created:42"},
		{LeaseKey{Tenant: "default", Bus: "rabbit", Group: "workers", Alias: "batch:order", Message: "4%2"}, "rabbit:workers:batch%3Aorder:4%252"},
		{LeaseKey{Bus: "b", Group: "g", Source: "shop", Alias: "a", Message: "m"}, "b:g:shop:a:m"},
		{LeaseKey{Tenant: "acme", Bus: "b", Group: "g", Alias: "a", Message: "m"}, "acme:b:g::a:m"},
		{LeaseKey{Tenant: "acme", Bus: "b", Group: "g", Source: "ü/ x", Alias: "a", Message: "m"}, "acme:b:g:ü/ x:a:m"},
		{LeaseKey{Bus: "b", Group: "g", Alias: "a", Message: strings.Repeat("m", 600)}, "b:g:%sha256=2032544fbeeea78bf5ed01227ce5de05efdd62f9eff0751244cd47f3f8cb60e2"},
	} {
		if got := tc.key.String(); got != tc.want {
			t.Errorf("%+v is %q, want %q", tc.key, got, tc.want)
		}
	}
}

func TestParseLeaseKey_Refuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a", "a:b:c", "a:b:c:d:e:f:g", "a:b:c:%", "a:b:c:%3a", "default:b:g:s:a:m", ":b:g:s:a:m", "b:g::a:m"} {
		if k, err := ParseLeaseKey(s); err == nil {
			t.Errorf("%q is %+v, want an error", s, k)
		}
	}
}

func FuzzLeaseKey(f *testing.F) {
	f.Add("", "b", "g", "", "a", "m", "", "b", "g", "", "a:m", "")
	f.Add("t", "b", "g", "s", "a", "m", "default", "t:b", "g", "s", "a", "%3Am")
	f.Fuzz(func(t *testing.T, t1, b1, g1, s1, a1, m1, t2, b2, g2, s2, a2, m2 string) {
		one := LeaseKey{Tenant: orDefault(t1), Bus: b1, Group: g1, Source: s1, Alias: a1, Message: m1}
		two := LeaseKey{Tenant: orDefault(t2), Bus: b2, Group: g2, Source: s2, Alias: a2, Message: m2}
		if one != two && one.String() == two.String() {
			t.Fatalf("%+v and %+v are both %q", one, two, one.String())
		}
		got, err := ParseLeaseKey(one.String())
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
