package inboxhttp

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/bearer"
)

// Token lets a program in that knows a secret, to the keys that it may ask for.
type Token struct {
	Name   string            // of the program, for people; unique
	SHA256 [sha256.Size]byte // of the secret

	// Tenants, Buses and Groups are those of the keys that the program may ask for; an empty
	// list is all. With any of them the program may ask for no key that [lease.ParseKey]
	// does not know.
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

// mayAsk reports whether the program may ask for a key.
func (t *Token) mayAsk(key string) bool {
	if len(t.Tenants)+len(t.Buses)+len(t.Groups) == 0 {
		return true
	}
	k, err := lease.ParseKey(key)
	return err == nil && allows(t.Tenants, k.Tenant) && allows(t.Buses, k.Bus) && allows(t.Groups, k.Group)
}

func allows(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

// caller is who sends requests, with what is left of its rate.
type caller struct {
	Token
	bucket *bucket // nil: no limit
}

// callers are all that are let in.
type callers struct {
	known     []caller
	anonymous *caller // nil if a token is needed
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
			bucket = old.bucket // reading the tokens again gives nobody a new rate
		}
		all.known = append(all.known, caller{Token: t, bucket: bucket})
	}
	return all, nil
}

// of returns who has sent r, nil if r does not prove it.
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
