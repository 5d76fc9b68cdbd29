package httpserve

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Sender returns the address that a request came from, without an IPv6 zone.
func Sender(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap().WithZone("")
}

// IsLocal reports whether a request comes from this machine and is addressed to it. The Host is
// checked because a foreign name may resolve to this machine (DNS rebinding), which would let its
// pages in; a proxy may serve anybody.
func IsLocal(r *http.Request) bool {
	return Sender(r).IsLoopback() && isLoopbackHost(r.Host) && !isForwarded(r)
}

func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

func isForwarded(r *http.Request) bool {
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
			return true
		}
	}
	return false
}

// LocalOnly refuses requests that are not [IsLocal], and those from pages of other origins that are
// not listed. It is for servers without authentication.
func LocalOnly(next http.Handler, origins ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsLocal(r) || !ownOrigin(r) && !slices.Contains(origins, r.Header.Get("Origin")) {
			http.Error(w, "without tokens only programs and pages of this machine are answered, which ask for localhost or 127.0.0.1", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownOrigin reports whether a request comes from no page of another host.
func ownOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	return origin == "" || err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}
