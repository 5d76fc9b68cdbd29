// Package bearer checks the bearer tokens of requests against hashes of secrets.
package bearer

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Hash is the SHA-256 of a secret.
type Hash = [sha256.Size]byte

// minLen is the least length of a secret. Shorter ones could be guessed.
const minLen = 20

// ParseHash returns the hash of a secret, which is written as "sha256:" and the hash in hexadecimal
// digits, or as the secret itself, of at least 20 bytes. The error continues a sentence that names
// the token, and does not quote the secret.
func ParseHash(secret string) (Hash, error) {
	digits, hashed := strings.CutPrefix(secret, "sha256:")
	if !hashed {
		if len(secret) < minLen {
			return Hash{}, fmt.Errorf("has %d bytes, the minimum is %d", len(secret), minLen)
		}
		return sha256.Sum256([]byte(secret)), nil
	}
	sum, err := hex.DecodeString(digits)
	if err != nil || len(sum) != sha256.Size {
		return Hash{}, errors.New("begins with sha256: and does not go on with 64 hexadecimal digits")
	}
	return Hash(sum), nil
}

// Of returns the bearer token of a request, and false if it has none.
func Of(r *http.Request) (secret string, ok bool) {
	scheme, secret, found := strings.Cut(r.Header.Get("Authorization"), " ")
	return secret, found && strings.EqualFold(scheme, "Bearer")
}

// Find returns which of the tokens has this secret, nil if none has.
func Find[T any](tokens []T, hash func(*T) *Hash, secret string) *T {
	return FindHash(tokens, hash, sha256.Sum256([]byte(secret)))
}

// FindHash returns which of the tokens has the secret with this hash, nil if none has. It compares
// every token, so that its duration reveals nothing.
func FindHash[T any](tokens []T, hash func(*T) *Hash, sum Hash) *T {
	var found *T
	for i := range tokens {
		if subtle.ConstantTimeCompare(sum[:], hash(&tokens[i])[:]) == 1 {
			found = &tokens[i]
		}
	}
	return found
}
