package httpbroker

import (
	"net/netip"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	refused := []string{
		"127.0.0.1", "127.255.255.255", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "192.88.99.1",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::ffff:0:127.0.0.1",
		"fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1",
		"64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "5f00::1",
	}
	for _, a := range refused {
		if (guard{}).permits(netip.MustParseAddr(a)) {
			t.Errorf("%s is permitted", a)
		}
		if err := (guard{}).control("tcp", netip.AddrPortFrom(netip.MustParseAddr(a), 443).String(), nil); err == nil {
			t.Errorf("a connection to %s is permitted", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "172.32.0.1", "100.128.0.1", "198.20.0.1", "::ffff:8.8.8.8", "2606:4700:4700::1111", "2a00:1450:4001::200e"} {
		if !(guard{}).permits(netip.MustParseAddr(a)) {
			t.Errorf("%s is refused", a)
		}
	}
	g := guard{[]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("::1/128")}}
	for a, want := range map[string]bool{"10.1.2.3": true, "::ffff:10.1.2.3": true, "::1": true, "10.2.0.1": false, "127.0.0.1": false} {
		if got := g.permits(netip.MustParseAddr(a)); got != want {
			t.Errorf("permits(%s) = %v with networks allowed, want %v", a, got, want)
		}
	}
}

// TestNew_SpecialAddress: a refused address in the URL is reported at once, in any notation.
func TestNew_SpecialAddress(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"http://127.0.0.1/", "http://[::1]:8080/", "https://[::ffff:10.0.0.1]/", "https://169.254.169.254/latest/meta-data"} {
		_, err := New(Config{Endpoints: []Endpoint{{Name: "a", URL: u, Secrets: []Secret{vectorSecret}}}})
		if err == nil || !strings.Contains(err.Error(), "not public") {
			t.Errorf("New() = %v for %s, want it refused", err, u)
		}
	}
}
