package discovery

import (
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Auth is the kind of authentication that an inbox service requires. The token is never announced.
type Auth string

// The kinds of authentication.
const (
	AuthNone   Auth = "none"
	AuthBearer Auth = "bearer" // a bearer token, from the client's settings
)

// Endpoint is the description of an inbox service.
type Endpoint struct {
	// Name of the service, for people, and to choose between two of the same priority. At most
	// 255 bytes without control characters. Required.
	Name string

	// URL is the address of the service: http or https, host, and optionally port and path, without
	// user and query. Required.
	URL string

	// Auth is the kind of authentication. Optional; the default is [AuthNone].
	Auth Auth

	// LeaseDefault is how long a lease lasts if the client requests no duration, in whole seconds up to
	// 24 hours. Optional; 0 means not announced.
	LeaseDefault time.Duration

	// RetentionDays is how long processed keys are kept, up to 36,500. Optional; 0 means not announced.
	RetentionDays int

	// Priority decides between services: the highest is chosen. Optional.
	Priority int
}

const (
	maxNameLen       = 255
	maxURLLen        = 2048
	maxLeaseDefault  = 24 * time.Hour
	maxRetentionDays = 36_500
)

// validate returns e with its defaults, and an error that names the field and quotes nothing.
func (e Endpoint) validate() (Endpoint, error) {
	setDefault(&e.Auth, AuthNone)
	switch {
	case e.Name == "":
		return e, invalid("Endpoint.Name", "is required")
	case len(e.Name) > maxNameLen:
		return e, invalid("Endpoint.Name", "has %d bytes, the limit is %d", len(e.Name), maxNameLen)
	case !isPlain(e.Name):
		return e, invalid("Endpoint.Name", "is not text without control characters")
	case e.Auth != AuthNone && e.Auth != AuthBearer:
		return e, invalid("Endpoint.Auth", "must be %q or %q", AuthNone, AuthBearer)
	case e.LeaseDefault < 0 || e.LeaseDefault > maxLeaseDefault || e.LeaseDefault%time.Second != 0:
		return e, invalid("Endpoint.LeaseDefault", "is %v; it must be whole seconds, up to %v", e.LeaseDefault, maxLeaseDefault)
	case e.RetentionDays < 0 || e.RetentionDays > maxRetentionDays:
		return e, invalid("Endpoint.RetentionDays", "is %d, the range is 0 to %d", e.RetentionDays, maxRetentionDays)
	}
	_, err := parseURL("Endpoint.URL", e.URL)
	return e, err
}

// parseURL checks the address of a service. The error does not quote it: it may contain secrets.
func parseURL(field, raw string) (*url.URL, error) {
	if raw == "" {
		return nil, invalid(field, "is required")
	}
	if len(raw) > maxURLLen {
		return nil, invalid(field, "has %d bytes, the limit is %d", len(raw), maxURLLen)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "" || !isPlain(raw) || strings.ContainsRune(raw, ' '):
		return nil, invalid(field, "is no URL with scheme and host")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, invalid(field, "must begin with https:// or http://")
	case u.User != nil:
		return nil, invalid(field, "holds a user; credentials belong to the client's own settings")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(raw, "#"):
		return nil, invalid(field, "holds a query or a fragment, which may be a credential")
	}
	return u, nil
}

func isPlain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
