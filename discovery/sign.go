package discovery

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxAge is how old a signed announcement may be, and how far ahead its clock, so that an old one
// cannot be replayed.
const maxAge = 5 * time.Minute

var (
	errUntrusted = errors.New("is not signed with a trusted key")
	errStale     = fmt.Errorf("was signed more than %v ago, or ahead", maxAge)
)

// signed returns the bytes that the signature covers: a title, bus, group, and the fields in
// the order below, each as its length in bytes, a colon, its text and a comma. A program in any
// language can build these without having to produce identical JSON.
func (a *announcement) signed(bus, group string) []byte {
	var b strings.Builder
	for _, field := range []string{
		"waybill discovery v1", bus, group,
		a.Kind, a.Name, a.Version, a.Endpoint.URL, string(a.Endpoint.Auth),
		strconv.Itoa(a.LeaseDefaults.Seconds), strconv.Itoa(a.RetentionDays), strconv.Itoa(a.Priority),
		a.CorrelationID, strconv.FormatInt(a.IssuedAt, 10),
	} {
		fmt.Fprintf(&b, "%d:%s,", len(field), field)
	}
	return []byte(b.String())
}

// verify returns nil if there are no trusted keys, or one of them has signed a recently.
func (a *announcement) verify(keys []ed25519.PublicKey, bus, group string, now time.Time) error {
	if len(keys) == 0 {
		return nil
	}
	message := a.signed(bus, group)
	if !slices.ContainsFunc(keys, func(k ed25519.PublicKey) bool { return ed25519.Verify(k, message, a.Signature) }) {
		return errUntrusted
	}
	if now.Sub(time.Unix(a.IssuedAt, 0)).Abs() > maxAge {
		return errStale
	}
	return nil
}

func validKeys(keys []ed25519.PublicKey) error {
	for i, k := range keys {
		if len(k) != ed25519.PublicKeySize {
			return invalid(fmt.Sprintf("Config.TrustedKeys[%d]", i), "has %d bytes, a key has %d", len(k), ed25519.PublicKeySize)
		}
	}
	return nil
}
