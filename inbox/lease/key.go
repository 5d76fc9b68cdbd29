package lease

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
)

// Key identifies a message to one consumer where a single string is needed: in lease stores
// and in the HTTP inbox service, which programs in other languages share.
type Key struct {
	Tenant  string // "" means the default tenant
	Bus     string // the name of the broker or of the virtual host
	Group   string // the consumer's stable name
	Source  string // the producing service; "" if ids are unique across all of them
	Alias   string // the logical type without its version
	Message string // the idempotency key, else the message id
}

// KeyOf returns the key of m for the given group on the given bus, without a source, which is
// the key that programs in all languages build. Set Source if ids are unique per source only.
func KeyOf(bus, group string, m *waybill.Message) Key {
	k := inbox.KeyOf(group, m)
	return Key{Tenant: k.Tenant, Bus: bus, Group: group, Alias: k.Alias, Message: k.Message}
}

// String joins the parts with colons. Different keys give different strings, and the number of
// parts shows which they are:
//
//	bus:group:alias:message                 default tenant, no source
//	bus:group:source:alias:message          default tenant
//	tenant:bus:group:source:alias:message   source may be empty
//
// Within a part a percent sign is written %25 and a colon %3A. If that is longer than
// [MaxKeyLen] bytes, everything after the group and its colon is replaced by %sha256= and its
// SHA-256 in lower-case hex; [Key.Raw] is the full text, for people. If the string is still too
// long, because of tenant, bus and group, the stores refuse it.
//
// The file testdata/leasekeys.json has keys for the tests of other programs.
func (k Key) String() string {
	full := k.Raw()
	if len(full) <= MaxKeyLen {
		return full
	}
	sum := sha256.Sum256([]byte(joinKey(k.message())))
	return joinKey(append(k.owner(), hashMark+hex.EncodeToString(sum[:])))
}

// Raw returns the string without a limit of its length.
func (k Key) Raw() string { return joinKey(append(k.owner(), k.message()...)) }

// owner returns the parts that identify the consumer, escaped: tenant unless it is the default one,
// bus, group.
func (k Key) owner() []string {
	parts := []string{escapePart(k.Bus), escapePart(k.Group)}
	if k.defaultTenant() {
		return parts
	}
	return append([]string{escapePart(k.Tenant)}, parts...)
}

// message returns the parts that identify the message, escaped.
func (k Key) message() []string {
	parts := []string{escapePart(k.Alias), escapePart(k.Message)}
	if k.defaultTenant() && k.Source == "" {
		return parts
	}
	return append([]string{escapePart(k.Source)}, parts...)
}

func (k Key) defaultTenant() bool { return k.Tenant == "" || k.Tenant == waybill.DefaultTenant }

func joinKey(parts []string) string { return strings.Join(parts, ":") }

// hashMark cannot result from escaping, where a percent sign is followed by 25 or 3A.
const hashMark = "%sha256="

var (
	escaper   = strings.NewReplacer("%", "%25", ":", "%3A")
	unescaper = strings.NewReplacer("%25", "%", "%3A", ":")
)

func escapePart(s string) string { return escaper.Replace(s) }

var errLeaseKey = errors.New("inbox: not a key that Key.String makes")

// ParseKey is the inverse of [Key.String]. Where the string holds a hash, Source and
// Alias are empty and Message is the hash with its mark. The error says that no Key has
// this string.
func ParseKey(s string) (Key, error) {
	parts := strings.Split(s, ":")
	hashed := strings.HasPrefix(parts[len(parts)-1], hashMark)
	for i, p := range parts {
		if hashed && i == len(parts)-1 {
			break
		}
		parts[i] = unescaper.Replace(p)
		if escapePart(parts[i]) != p {
			return Key{}, errLeaseKey
		}
	}
	k, ok := keyOfParts(parts, hashed)
	if !ok || k.String() != s && !hashed {
		return Key{}, errLeaseKey
	}
	return k, nil
}

func keyOfParts(p []string, hashed bool) (Key, bool) {
	switch {
	case hashed && len(p) == 3:
		return Key{Tenant: waybill.DefaultTenant, Bus: p[0], Group: p[1], Message: p[2]}, true
	case hashed && len(p) == 4:
		return Key{Tenant: p[0], Bus: p[1], Group: p[2], Message: p[3]}, true
	case hashed:
		return Key{}, false
	case len(p) == 4:
		return Key{Tenant: waybill.DefaultTenant, Bus: p[0], Group: p[1], Alias: p[2], Message: p[3]}, true
	case len(p) == 5:
		return Key{Tenant: waybill.DefaultTenant, Bus: p[0], Group: p[1], Source: p[2], Alias: p[3], Message: p[4]}, true
	case len(p) == 6:
		return Key{Tenant: p[0], Bus: p[1], Group: p[2], Source: p[3], Alias: p[4], Message: p[5]}, true
	}
	return Key{}, false
}
