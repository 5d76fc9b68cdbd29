package dashboard

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/bearer"
)

// Role says what a person may do. Each role may do what those before it may.
type Role int

const (
	Nobody   Role = iota // nothing
	Reader               // see everything but payloads
	Operator             // requeue and resolve dead letters, start and cancel replays, resume sagas
	Admin                // discard, restore, delete and edit dead letters, have sagas compensated
)

var roleNames = [...]string{Nobody: "nobody", Reader: "reader", Operator: "operator", Admin: "admin"}

// String is the name of the role, as [ParseGrant] takes it.
func (r Role) String() string {
	if r < 0 || int(r) >= len(roleNames) {
		return fmt.Sprintf("role %d", int(r))
	}
	return roleNames[r]
}

// Grant is what somebody may do.
type Grant struct {
	Role   Role
	Reveal bool // may see payloads and header values, which is audited

	// Tenant limits what the person sees and changes to the messages of one tenant. Data that is stored for all
	// tenants together is refused: groups, statistics, replays, relays, consumers, checks and the audit log.
	// Optional: without it all tenants.
	Tenant string
}

// ParseGrant reads "reader", "operator" or "admin", followed by "+payloads" for the right to see payloads, and by
// "@" and the name of a tenant for a limit to it.
func ParseGrant(text string) (Grant, error) {
	name, tenant, limited := strings.Cut(text, "@")
	name, reveal := strings.CutSuffix(name, "+payloads")
	for role := Reader; role <= Admin; role++ {
		if roleNames[role] == name {
			g := Grant{Role: role, Reveal: reveal, Tenant: tenant}
			if limited && tenant == "" || strings.HasSuffix(tenant, "+payloads") {
				return Grant{}, fmt.Errorf("%q names no tenant; it is the last part, as in operator+payloads@acme", text)
			}
			return g, g.check()
		}
	}
	return Grant{}, fmt.Errorf("%q is not a role; it is reader, operator or admin, followed by +payloads for who may see payloads, and by @ and a tenant for who is limited to it", text)
}

// check returns an error if no message can have the grant's tenant.
func (g Grant) check() error {
	if len(g.Tenant) > waybill.MaxTenantLen || !isStorable(g.Tenant) {
		return invalid("Grant.Tenant", fmt.Sprintf("is longer than %d bytes, or no text", waybill.MaxTenantLen))
	}
	return nil
}

// join returns the effective grant of somebody with two. Grants for different tenants do not add up: the higher
// role counts, and of equal ones that for all tenants, or else the first.
func (g Grant) join(other Grant) Grant {
	switch {
	case other.Role <= Nobody && !other.Reveal:
		return g
	case g.Tenant == other.Tenant:
		return Grant{Role: max(g.Role, other.Role), Reveal: g.Reveal || other.Reveal, Tenant: g.Tenant}
	case other.Role > g.Role || other.Role == g.Role && other.Tenant == "":
		return other
	}
	return g
}

// User is an authenticated person or program.
type User struct {
	Name string // recorded in the audit log; up to waybill.MaxIDLen bytes
	Grant
}

// Authenticator authenticates requests. It is safe for concurrent use.
type Authenticator interface {
	// Authenticate returns the sender of r, and false if r does not prove it.
	Authenticate(r *http.Request) (User, bool)
}

// secretChecker is an [Authenticator] with secrets that a person can type into the form.
type secretChecker interface {
	checkHash(secret bearer.Hash) (User, bool)
}

// Token admits whoever knows a secret.
type Token struct {
	Name   string            // of the person; recorded in the audit log
	SHA256 [sha256.Size]byte // of the secret
	Grant  Grant
}

// NewToken returns a token for a secret, which is "sha256:" and its SHA-256 in hexadecimal digits, or the secret
// itself, of at least 20 bytes.
func NewToken(name, secret string, grant Grant) (Token, error) {
	sum, err := bearer.ParseHash(secret)
	if err != nil {
		return Token{}, invalid("Token", fmt.Sprintf("of %q %v", name, err))
	}
	return Token{Name: name, SHA256: sum, Grant: grant}, nil
}

// Tokens admits those who know a secret, sent as a bearer token or typed into the sign-in form. Only hashes of the
// secrets are kept.
type Tokens struct{ tokens atomic.Pointer[[]Token] }

// NewTokens returns an authenticator for tokens, at least one.
func NewTokens(tokens ...Token) (*Tokens, error) {
	t := &Tokens{}
	if err := t.Set(tokens...); err != nil {
		return nil, err
	}
	return t, nil
}

// Set replaces all tokens: sessions and programs whose token is no longer among them are refused, and others may do
// what theirs grants now. If it returns an error nothing has changed.
func (t *Tokens) Set(tokens ...Token) error {
	if len(tokens) == 0 {
		return invalid("Tokens", "are none; nobody could sign in")
	}
	seen := make(map[[sha256.Size]byte]bool)
	for _, one := range tokens {
		switch {
		case !validName(one.Name):
			return invalid("Token.Name", fmt.Sprintf("%q is blank, too long, or no text", one.Name))
		case one.Grant.Role < Reader || one.Grant.Role > Admin:
			return invalid("Token.Grant", fmt.Sprintf("of %q has no role", one.Name))
		case one.Grant.check() != nil:
			return one.Grant.check()
		case seen[one.SHA256]:
			return invalid("Token", fmt.Sprintf("of %q is that of somebody else, too", one.Name))
		}
		seen[one.SHA256] = true
	}
	tokens = slices.Clone(tokens)
	t.tokens.Store(&tokens)
	return nil
}

// validName reports whether a name can be recorded in the audit log.
func validName(name string) bool {
	return strings.TrimSpace(name) != "" && len(name) <= waybill.MaxIDLen && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// Authenticate implements [Authenticator].
func (t *Tokens) Authenticate(r *http.Request) (User, bool) {
	secret, ok := bearer.Of(r)
	if !ok {
		return User{}, false
	}
	return t.checkHash(sha256.Sum256([]byte(secret)))
}

func (t *Tokens) checkHash(secret bearer.Hash) (User, bool) {
	found := bearer.FindHash(*t.tokens.Load(), func(t *Token) *bearer.Hash { return &t.SHA256 }, secret)
	if found == nil {
		return User{}, false
	}
	return User{Name: found.Name, Grant: found.Grant}, true
}
