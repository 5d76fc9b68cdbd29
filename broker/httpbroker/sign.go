package httpbroker

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// The headers of the Standard Webhooks convention.
const (
	HeaderID        = "Webhook-Id"        // the same for every attempt at a message
	HeaderTimestamp = "Webhook-Timestamp" // of this attempt, in seconds since 1970
	HeaderSignature = "Webhook-Signature" // one signature for each secret, separated by spaces
)

// DefaultTolerance is how far a timestamp may be from the time of the receiver.
const DefaultTolerance = 5 * time.Minute

var (
	// ErrSignature reports a request without a signature by one of the secrets.
	ErrSignature = errors.New("httpbroker: the signature does not verify")

	// ErrTimestamp reports a signature that is too old, or from the future.
	ErrTimestamp = errors.New("httpbroker: the timestamp is out of tolerance")
)

const (
	secretPrefix  = "whsec_"
	minSecretLen  = 24 // bytes, by the convention
	maxSecretLen  = 64
	version       = "v1,"
	maxSignatures = 16 // in one header
	maxIDLen      = 256
)

// Secret is what sender and receiver sign with: "whsec_" and 24 to 64 random bytes in base64.
// The prefix may be missing. Package fmt prints it redacted.
type Secret string

// NewSecret returns a random secret.
func NewSecret() Secret {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	return Secret(secretPrefix + base64.StdEncoding.EncodeToString(key))
}

// String hides the secret.
func (s Secret) String() string { return secretPrefix + "xxxxx" }

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// key returns the bytes to sign with. The error does not quote the secret.
func (s Secret) key() ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(s), secretPrefix))
	if err != nil {
		return nil, invalidf("Secret", "is not whsec_ and base64")
	}
	if len(key) < minSecretLen || len(key) > maxSecretLen {
		return nil, invalidf("Secret", "has %d bytes, the range is %d to %d", len(key), minSecretLen, maxSecretLen)
	}
	return key, nil
}

func keysOf(secrets []Secret) ([][]byte, error) {
	if len(secrets) == 0 || len(secrets) > maxSignatures {
		return nil, invalidf("Secret", "%d are given, the range is 1 to %d", len(secrets), maxSignatures)
	}
	keys := make([][]byte, len(secrets))
	for i, s := range secrets {
		var err error
		if keys[i], err = s.key(); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// Sign sets the three headers of the convention for a message with the given id, sent at the
// given time. It signs with each secret: the old and the new one while a secret is being
// replaced. The id must be visible ASCII without a full stop. The error is an
// [*waybill.InvalidError]; h is unchanged then.
func Sign(h http.Header, id string, at time.Time, payload []byte, secrets ...Secret) error {
	keys, err := keysOf(secrets)
	if err != nil {
		return err
	}
	if !validID(id) {
		return invalidf(HeaderID, "is empty, longer than %d bytes, or not visible ASCII without full stops", maxIDLen)
	}
	sign(h, id, at, payload, keys)
	return nil
}

func sign(h http.Header, id string, at time.Time, payload []byte, keys [][]byte) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(keys))
	for i, key := range keys {
		signatures[i] = version + base64.StdEncoding.EncodeToString(mac(key, id, timestamp, payload))
	}
	h[HeaderID] = []string{id}
	h[HeaderTimestamp] = []string{timestamp}
	h[HeaderSignature] = []string{strings.Join(signatures, " ")}
}

func mac(key []byte, id, timestamp string, payload []byte) []byte {
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(id + "." + timestamp + "."))
	sum.Write(payload)
	return sum.Sum(nil)
}

// Verify returns nil if payload, the body byte for byte as it was received, came with the
// headers h from a sender that knows one of the secrets, at a time that differs from now by at
// most tolerance; 0 stands for [DefaultTolerance]. Otherwise the error is [ErrSignature] or
// [ErrTimestamp], which should be answered with 401, or, about the secrets, an
// [*waybill.InvalidError]. Signatures are compared in constant time. A request that is repeated
// within the tolerance verifies again: recognise it by its webhook-id.
func Verify(h http.Header, payload []byte, tolerance time.Duration, secrets ...Secret) error {
	keys, err := keysOf(secrets)
	if err != nil {
		return err
	}
	return verify(h, payload, time.Now(), tolerance, keys)
}

func verify(h http.Header, payload []byte, now time.Time, tolerance time.Duration, keys [][]byte) error {
	id, timestamp, signatures, err := signed(h)
	if err != nil {
		return err
	}
	if !anyEqual(signatures, id, timestamp, payload, keys) {
		return ErrSignature
	}
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if age := now.Sub(time.Unix(seconds, 0)); err != nil || age > tolerance || age < -tolerance {
		return ErrTimestamp
	}
	return nil
}

// anyEqual compares every signature with that of every key, so that the time it takes reveals
// nothing about either.
func anyEqual(signatures [][]byte, id, timestamp string, payload []byte, keys [][]byte) bool {
	equal := false
	for _, key := range keys {
		want := mac(key, id, timestamp, payload)
		for _, signature := range signatures {
			equal = hmac.Equal(signature, want) || equal
		}
	}
	return equal
}

// signed parses the three headers. Signatures of other versions are omitted.
func signed(h http.Header) (id, timestamp string, signatures [][]byte, err error) {
	list, ok := only(h, HeaderSignature)
	id, hasID := only(h, HeaderID)
	timestamp, hasTimestamp := only(h, HeaderTimestamp)
	if !ok || !hasID || !hasTimestamp || !validID(id) || !isNumber(timestamp) {
		return "", "", nil, ErrSignature
	}
	for i, entry := range strings.Split(list, " ") {
		if i == maxSignatures {
			return "", "", nil, ErrSignature
		}
		text, ours := strings.CutPrefix(entry, version)
		if signature, err := base64.StdEncoding.DecodeString(text); ours && err == nil {
			signatures = append(signatures, signature)
		}
	}
	return id, timestamp, signatures, nil
}

// only returns the value of a header that must occur exactly once.
func only(h http.Header, name string) (string, bool) {
	values := h[name]
	if len(values) != 1 {
		return "", false
	}
	return values[0], true
}

// validID refuses full stops, because one could be taken for the end of the id.
func validID(id string) bool {
	if id == "" || len(id) > maxIDLen {
		return false
	}
	return !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '.' })
}

func isNumber(s string) bool {
	return s != "" && len(s) <= 18 && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

func invalidf(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: "httpbroker." + field, Reason: fmt.Sprintf(format, args...)}
}
