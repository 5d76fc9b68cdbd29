package inboxhttp

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/bearer"
)

// Token authenticates a program by a secret, and limits the keys that it may request.
type Token struct {
	Name   string            // of the program, for people; unique
	SHA256 [sha256.Size]byte // of the secret

	// Tenants, Buses and Groups are those of the keys that the program may request; an empty list means
	// all. If one is set the program may request only keys that [lease.ParseKey] accepts.
	Tenants, Buses, Groups []string
}

// NewToken returns a token without limits for a secret, which is "sha256:" and the SHA-256 of
// it in hexadecimal digits, or the secret itself, of at least 20 bytes.
func NewToken(name, secret string) (Token, error) {
	sum, err := bearer.ParseHash(secret)
	if err != nil {
		return Token{}, invalid("Token", "of %q %v", name, err)
	}
	return Token{Name: name, SHA256: sum}, nil
}

// mayAsk reports whether the program may request a key.
func (t *Token) mayAsk(key string) bool {
	if len(t.Tenants)+len(t.Buses)+len(t.Groups) == 0 {
		return true
	}
	k, err := lease.ParseKey(key)
	return err == nil && allows(t.Tenants, k.Tenant) && allows(t.Buses, k.Bus) && allows(t.Groups, k.Group)
}

func allows(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

// caller is an authenticated program, with its rate limit.
type caller struct {
	Token
	bucket *bucket // nil: no limit
}

// callers are all authenticated programs.
type callers struct {
	known     []caller
	anonymous *caller // nil if a token is required
}

func newCallers(cfg Config, before callers) (callers, error) {
	if len(cfg.Tokens) == 0 {
		return callers{anonymous: &caller{bucket: newBucket(cfg.RateLimit)}}, nil
	}
	var all callers
	names, sums := make(map[string]bool), make(map[[sha256.Size]byte]bool)
	for _, t := range cfg.Tokens {
		switch {
		case strings.TrimSpace(t.Name) == "":
			return callers{}, invalid("Token.Name", "is required")
		case names[t.Name]:
			return callers{}, invalid("Token.Name", "%q is there twice", t.Name)
		case t.SHA256 == [sha256.Size]byte{}:
			return callers{}, invalid("Token.SHA256", "of %q is required", t.Name)
		case sums[t.SHA256]:
			return callers{}, invalid("Token.SHA256", "of %q is that of another token, too", t.Name)
		}
		names[t.Name], sums[t.SHA256] = true, true
		bucket := newBucket(cfg.RateLimit)
		if old := bearer.FindHash(before.known, hashOf, t.SHA256); old != nil {
			bucket = old.bucket // reloading the tokens resets no rate limit
		}
		all.known = append(all.known, caller{Token: t, bucket: bucket})
	}
	return all, nil
}

// of returns the sender of r, nil if r is not authenticated.
func (c callers) of(r *http.Request) *caller {
	if c.anonymous != nil {
		return c.anonymous
	}
	secret, ok := bearer.Of(r)
	if !ok {
		return nil
	}
	return bearer.Find(c.known, hashOf, secret)
}

func hashOf(c *caller) *bearer.Hash { return &c.SHA256 }
