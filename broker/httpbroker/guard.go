package httpbroker

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// guard refuses connections to addresses that are not public, so that an endpoint's URL cannot
// reach into the network of the sender.
type guard struct{ allowed []netip.Prefix }

// special are the networks, in addition to those that package netip knows, that are not public
// or that embed other addresses: in IPv4, and within the global IPv6 network.
//
// Source: the special-purpose address registries of IANA (RFC 6890).
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // between a provider and its customers
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"), // Teredo, which holds IPv4 addresses, among others
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"), // 6to4, which holds IPv4 addresses
	netip.MustParsePrefix("3fff::/20"),
}

// global is all of IPv6 that is allocated to the public. NAT64, IPv4-compatible, local and
// multicast addresses lie outside.
var global = netip.MustParsePrefix("2000::/3")

// isPublic reports whether an address, which is not IPv4 mapped into IPv6, is public.
func isPublic(a netip.Addr) bool {
	if a.Is6() && !global.Contains(a) || !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// permits reports whether an address may be connected to.
func (g guard) permits(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return isPublic(a) || slices.ContainsFunc(g.allowed, func(p netip.Prefix) bool { return p.Contains(a) })
}

// control is called by net.Dialer with the address that it is about to connect to, after names
// were resolved.
func (g guard) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %s is no IP address and port", address)
	}
	if !g.permits(to.Addr()) {
		return fmt.Errorf("address %s is not public, and not allowed", to.Addr())
	}
	return nil
}
