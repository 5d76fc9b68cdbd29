package dashboard

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/waybill-go/waybill/internal/httpserve"
)

// ProxyConfig describes a proxy that signs people in, such as one for OpenID Connect.
type ProxyConfig struct {
	// Trusted are the addresses of the proxy. Requests from elsewhere are not authenticated,
	// whatever their headers say. Required.
	Trusted []netip.Prefix

	// UserHeader is the header in which the proxy names the person, such as
	// X-Auth-Request-Email. The proxy must remove it from incoming requests. Required.
	UserHeader string

	// GroupsHeader is the header in which it names the person's groups, comma-separated. The
	// proxy must remove it from incoming requests. Optional.
	GroupsHeader string

	// Groups says what the members of each group may do. The highest role counts; grants for
	// different tenants do not add up. Optional.
	Groups map[string]Grant

	// Default is what everybody may do whom the proxy has authenticated. Optional; the
	// default is nothing.
	Default Grant
}

// ProxyAccess authenticates requests by the headers of a trusted proxy.
type ProxyAccess struct{ cfg ProxyConfig }

// NewProxyAccess returns an authenticator for requests that come through a proxy.
func NewProxyAccess(cfg ProxyConfig) (*ProxyAccess, error) {
	switch {
	case len(cfg.Trusted) == 0:
		return nil, invalid("ProxyConfig.Trusted", "is required; else anybody could claim to be anybody")
	case cfg.UserHeader == "":
		return nil, invalid("ProxyConfig.UserHeader", "is required")
	case len(cfg.Groups) > 0 && cfg.GroupsHeader == "":
		return nil, invalid("ProxyConfig.GroupsHeader", "is required with Groups")
	case len(cfg.Groups) == 0 && cfg.Default.Role == Nobody:
		return nil, invalid("ProxyConfig.Groups", "is required, or Default; nobody could do anything")
	}
	for _, g := range append(slices.Collect(maps.Values(cfg.Groups)), cfg.Default) {
		if err := g.check(); err != nil {
			return nil, err
		}
	}
	return &ProxyAccess{cfg}, nil
}

// Authenticate implements [Authenticator].
func (p *ProxyAccess) Authenticate(r *http.Request) (User, bool) {
	if !fromAny(r, p.cfg.Trusted) {
		return User{}, false
	}
	// More than one value means that the proxy has added to what a client sent.
	names := r.Header.Values(p.cfg.UserHeader)
	if len(names) != 1 || !validName(names[0]) {
		return User{}, false
	}
	user := User{Name: names[0], Grant: p.cfg.Default}
	if p.cfg.GroupsHeader == "" {
		return user, user.Role > Nobody
	}
	if groups := r.Header.Values(p.cfg.GroupsHeader); len(groups) == 1 {
		for group := range strings.SplitSeq(groups[0], ",") {
			user.Grant = user.Grant.join(p.cfg.Groups[strings.TrimSpace(group)])
		}
	}
	return user, user.Role > Nobody
}

func fromAny(r *http.Request, trusted []netip.Prefix) bool { return isIn(httpserve.Sender(r), trusted) }

func isIn(from netip.Addr, trusted []netip.Prefix) bool {
	return from.IsValid() && slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(from) })
}

// isSecure reports whether the person's browser speaks TLS.
func (d *Dashboard) isSecure(r *http.Request) bool {
	return r.TLS != nil || fromAny(r, d.cfg.TrustedProxies) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// loopback admits requests from this machine to this machine.
type loopback struct{}

// Authenticate implements [Authenticator].
func (loopback) Authenticate(r *http.Request) (User, bool) {
	return User{Name: "loopback", Grant: Grant{Role: Admin, Reveal: true}}, httpserve.IsLocal(r)
}
