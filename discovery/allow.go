package discovery

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

var (
	errScheme = errors.New("is at a URL without TLS, which AllowHTTP does not allow")
	errHost   = errors.New("is at a host that AllowedHosts does not name")
)

// allow is the list of hosts and schemes that an announcement may name.
type allow struct {
	hosts []hostPattern
	http  bool
}

// hostPattern is a host, or all below one, on one port or all.
type hostPattern struct {
	host   string // lower case
	port   string // "" is any
	below  bool   // not host itself, but its subdomains
	anyone bool   // any host at all
}

func newAllow(hosts []string, http bool) (allow, error) {
	list := allow{http: http}
	for i, text := range hosts {
		p, ok := parseHost(text)
		if !ok {
			return list, invalid(fmt.Sprintf("Config.AllowedHosts[%d]", i), `is none of host, host:port, *.domain and "*"`)
		}
		list.hosts = append(list.hosts, p)
	}
	return list, nil
}

func parseHost(text string) (p hostPattern, ok bool) {
	p.host = strings.ToLower(text)
	if host, port, err := net.SplitHostPort(p.host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return p, false
		}
		p.host, p.port = host, port
	}
	if p.host == "*" {
		p.anyone = true
		return p, true
	}
	p.host = strings.TrimSuffix(strings.Trim(p.host, "[]"), ".")
	p.host, p.below = strings.CutPrefix(p.host, "*.")
	return p, p.host != "" && !strings.ContainsAny(p.host, "*/@? ")
}

// check returns nil if a URL accepted by parseURL is on the list, and otherwise why it is not.
func (a allow) check(u *url.URL) error {
	if u.Scheme != "https" && !a.http {
		return errScheme
	}
	if !slices.ContainsFunc(a.hosts, func(p hostPattern) bool { return p.matches(u) }) {
		return errHost
	}
	return nil
}

func (p hostPattern) matches(u *url.URL) bool {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	if p.port != "" && p.port != port {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if p.below {
		return strings.HasSuffix(host, "."+p.host)
	}
	return p.anyone || host == p.host
}
