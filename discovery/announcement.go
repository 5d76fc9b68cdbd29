package discovery

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	kindInbox = "inbox"
	versionV1 = "v1"

	maxCorrelationLen = 255
)

// ping is the body of a question.
type ping struct {
	Kind    string `json:"kind"`
	Name    string `json:"name,omitempty"` // name of the client
	Version string `json:"version"`
}

// announcement is the body of an answer, or of an unsolicited announcement.
type announcement struct {
	Kind          string        `json:"kind"`
	Name          string        `json:"name"`
	Version       string        `json:"version"`
	Endpoint      address       `json:"endpoint"`
	LeaseDefaults leaseDefaults `json:"leaseDefaults"`
	RetentionDays int           `json:"retentionDays"`
	Priority      int           `json:"priority"`
	CorrelationID string        `json:"correlationId"`
	IssuedAt      int64         `json:"issuedAt,omitempty"`  // seconds since 1970, if it is signed
	Signature     []byte        `json:"signature,omitempty"` // in base64
}

type leaseDefaults struct {
	Seconds int `json:"seconds"`
}

// address is the address of a service: an object, or the URL alone.
type address struct {
	Scheme string `json:"scheme"`
	URL    string `json:"url"`
	Auth   Auth   `json:"auth"`
}

// UnmarshalJSON accepts both forms.
func (a *address) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, &a.URL)
	}
	type object address // without this method
	return json.Unmarshal(raw, (*object)(a))
}

// encode encodes an announcement of a service for bus and group, signed if there is a key. The
// endpoint is valid.
func encode(e Endpoint, bus, group, correlationID string, key ed25519.PrivateKey, now time.Time) ([]byte, error) {
	scheme, _, _ := strings.Cut(e.URL, ":")
	a := announcement{
		Kind: kindInbox, Name: e.Name, Version: versionV1,
		Endpoint:      address{Scheme: strings.ToLower(scheme), URL: e.URL, Auth: e.Auth},
		LeaseDefaults: leaseDefaults{int(e.LeaseDefault / time.Second)},
		RetentionDays: e.RetentionDays, Priority: e.Priority, CorrelationID: correlationID,
	}
	if key != nil {
		a.IssuedAt = now.Unix()
		a.Signature = ed25519.Sign(key, a.signed(bus, group))
	}
	body, err := json.Marshal(a)
	if err == nil {
		err = refuseSecrets(body)
	}
	return body, err
}

var (
	errTooLarge = fmt.Errorf("is larger than %d bytes", maxBodyLen)
	errNotJSON  = errors.New("is not the JSON of an announcement")
	errKind     = errors.New("is not about an inbox service v1")
	errAnswer   = errors.New("answers another question")
)

// decode reads and checks an announcement that came with a correlation id, "" if it is unsolicited.
// The error says what is wrong and quotes nothing of it.
func decode(body []byte, correlationID string) (announcement, Endpoint, error) {
	var a announcement
	if len(body) > maxBodyLen {
		return a, Endpoint{}, errTooLarge
	}
	if err := refuseSecrets(body); err != nil {
		return a, Endpoint{}, err
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return a, Endpoint{}, errNotJSON
	}
	switch {
	case a.Kind != kindInbox || a.Version != versionV1:
		return a, Endpoint{}, errKind
	case a.CorrelationID != "" && a.CorrelationID != correlationID:
		return a, Endpoint{}, errAnswer
	}
	a.CorrelationID = correlationID // the older form has none
	e, err := a.endpoint()
	return a, e, err
}

// endpoint checks the fields that describe the service.
func (a *announcement) endpoint() (Endpoint, error) {
	if s := a.LeaseDefaults.Seconds; s < 0 || s > int(maxLeaseDefault/time.Second) {
		return Endpoint{}, invalid("Endpoint.LeaseDefault", "is %d seconds; the limit is %v", s, maxLeaseDefault)
	}
	e, err := Endpoint{
		Name: a.Name, URL: a.Endpoint.URL, Auth: a.Endpoint.Auth,
		LeaseDefault:  time.Duration(a.LeaseDefaults.Seconds) * time.Second,
		RetentionDays: a.RetentionDays, Priority: a.Priority,
	}.validate()
	if err != nil {
		return Endpoint{}, err
	}
	if u, err := parseURL("Endpoint.URL", e.URL); err != nil || a.Endpoint.Scheme != "" && !strings.EqualFold(a.Endpoint.Scheme, u.Scheme) {
		return Endpoint{}, invalid("Endpoint.URL", "has another scheme than the announcement says")
	}
	return e, nil
}
