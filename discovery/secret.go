package discovery

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// secretWords are parts of names of secret fields, without separators.
var secretWords = []string{
	"password", "passwd", "passphrase", "pwd", "secret", "token", "apikey", "accesskey", "privatekey", "credential",
	"authorization", "cookie",
}

// secretStarts are prefixes of the values of Authorization headers.
var secretStarts = []string{"bearer ", "basic "}

var errSecret = errors.New("holds a field that looks like a secret")

// refuseSecrets returns an error if a JSON text has a field, at any depth, whose name or value
// looks like a secret. It quotes neither.
func refuseSecrets(body []byte) error {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return errNotJSON
	}
	if holdsSecret(v) {
		return errSecret
	}
	return nil
}

func holdsSecret(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if secretName(name) || holdsSecret(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, holdsSecret)
	case string:
		text := strings.ToLower(strings.TrimSpace(v))
		return slices.ContainsFunc(secretStarts, func(start string) bool { return strings.HasPrefix(text, start) })
	}
	return false
}

func secretName(name string) bool {
	name = strings.NewReplacer("-", "", "_", "", " ", "", ".", "").Replace(strings.ToLower(name))
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}
