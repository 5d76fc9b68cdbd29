package cli

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/waybill-go/waybill/internal/bearer"
	"github.com/waybill-go/waybill/push"
)

// pushEntry is the entry of a push service token in the file.
type pushEntry struct {
	tokenEntry `yaml:",inline"`
	User       string
	Tenant     string
	Topics     []string
	Groups     []string
}

// pushToken is a secret and what its holder may see.
type pushToken struct {
	name  string
	hash  bearer.Hash
	grant push.Grant
}

// pushTokens reads a token file; it returns none if no file is named. Granted topics must be among
// those that are pushed.
func pushTokens(file string, topics []string) ([]pushToken, error) {
	names, hashes := make(map[string]bool), make(map[bearer.Hash]bool)
	return tokensIn(file, "user, tenant, topics and groups", func(e pushEntry) (pushToken, error) {
		t, err := e.token(topics)
		switch {
		case err != nil:
			return t, err
		case names[t.name]:
			return t, fmt.Errorf("token %q is there twice", t.name)
		case hashes[t.hash]:
			return t, fmt.Errorf("token %q is that of another name, too", t.name)
		}
		names[t.name], hashes[t.hash] = true, true
		return t, nil
	})
}

func (e pushEntry) token(topics []string) (pushToken, error) {
	secret, err := e.secret()
	if err != nil {
		return pushToken{}, err
	}
	t := pushToken{name: e.Name, grant: push.Grant{Account: e.Name, User: e.User, Tenant: e.Tenant, Topics: e.Topics, Groups: e.Groups}}
	if t.hash, err = bearer.ParseHash(secret); err != nil {
		return t, fmt.Errorf("token %q %w", e.Name, err)
	}
	switch i := slices.IndexFunc(e.Topics, func(topic string) bool { return !slices.Contains(topics, topic) }); {
	case strings.TrimSpace(e.Name) == "":
		return t, errors.New("a token has no name")
	case len(e.Topics) == 0:
		return t, fmt.Errorf("token %q has no topics; nothing is granted by default", e.Name)
	case i >= 0:
		return t, fmt.Errorf("token %q has the topic %q, which is not among those that are pushed", e.Name, e.Topics[i])
	}
	return t, nil
}

// accessToken is the parameter of the query, or the cookie, that holds a token where no header can
// be sent: by the browser's EventSource, and by SignalR's clients for a WebSocket.
const accessToken = "access_token"

// pushAccess admits clients that know one of the tokens.
type pushAccess struct{ tokens atomic.Pointer[[]pushToken] }

func newPushAccess(tokens []pushToken) *pushAccess {
	a := &pushAccess{}
	a.tokens.Store(&tokens)
	return a
}

func (a *pushAccess) authorize(r *http.Request) (push.Grant, error) {
	secret := secretOf(r)
	t := bearer.Find(*a.tokens.Load(), func(t *pushToken) *bearer.Hash { return &t.hash }, secret)
	if secret == "" || t == nil {
		return push.Grant{}, push.ErrUnauthenticated
	}
	return t.grant, nil
}

// replace replaces the tokens, and disconnects clients whose token is gone or now grants something
// else.
func (a *pushAccess) replace(tokens []pushToken, hub *push.Hub) {
	before := *a.tokens.Swap(&tokens)
	changed := make(map[string]bool)
	for _, t := range before {
		if !slices.ContainsFunc(tokens, func(now pushToken) bool { return reflect.DeepEqual(t, now) }) {
			changed[t.name] = true
		}
	}
	hub.DisconnectIf(func(g push.Grant) bool { return changed[g.Account] })
}

// secretOf returns the secret of a request, "" if it has none.
func secretOf(r *http.Request) string {
	if secret, ok := bearer.Of(r); ok {
		return secret
	}
	if secret := r.URL.Query().Get(accessToken); secret != "" {
		return secret
	}
	if cookie, err := r.Cookie(accessToken); err == nil {
		return cookie.Value
	}
	return ""
}

// authorizeAll lets everybody see every topic.
func authorizeAll(topics []string) func(*http.Request) (push.Grant, error) {
	return func(*http.Request) (push.Grant, error) { return push.Grant{Account: "anonymous", Topics: topics}, nil }
}
