package push

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// Grant says what a client may see. The zero value sees nothing.
type Grant struct {
	User    string    // the user's name, for messages to users. Optional
	Tenant  string    // the tenant whose messages it sees. Optional; the default is [waybill.DefaultTenant]
	Topics  []string  // topics, and destinations of sent messages, that it may see. Required
	Groups  []string  // its groups, for messages to groups. Optional
	Account string    // limits concurrent catch-ups of its clients; such as the name of a token. Optional: no limit
	Expires time.Time // when it is disconnected, such as the end of its token. Optional: never
}

// sees reports whether a message may be shown at all, whatever its target.
func (g Grant) sees(m *waybill.Message) bool {
	return cmp.Or(m.Tenant, waybill.DefaultTenant) == cmp.Or(g.Tenant, waybill.DefaultTenant) &&
		slices.Contains(g.Topics, m.Address())
}

// ErrUnauthenticated as the error of [Config.Authorize] says that the request is not authenticated,
// and answers with 401 instead of 403.
var ErrUnauthenticated = errors.New("push: not authenticated")

// topicParam is the query parameter, possibly repeated, that narrows what the client gets.
const topicParam = "topic"

// Admit decides whether a request may connect, and answers it if not. It admits only pages of the
// server's host and of [Config.AllowedOrigins], sets the CORS headers that the latter need, answers
// their preflight requests, and calls [Config.Authorize]. The parameter topic of
// the query, which may be repeated, narrows the topics of the grant; one that was not granted is
// refused. Protocols of other packages call it before [Hub.Serve].
func (h *Hub) Admit(w http.ResponseWriter, r *http.Request) (Grant, bool) {
	if !h.admitOrigin(w, r) {
		return Grant{}, false
	}
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return Grant{}, false
	}
	g, err := h.cfg.Authorize(r)
	switch {
	case errors.Is(err, ErrUnauthenticated):
		http.Error(w, "not authenticated", http.StatusUnauthorized)
		return Grant{}, false
	case err != nil || len(g.Topics) == 0:
		http.Error(w, "not allowed", http.StatusForbidden)
		return Grant{}, false
	}
	if wanted := r.URL.Query()[topicParam]; len(wanted) > 0 {
		if slices.ContainsFunc(wanted, func(topic string) bool { return !slices.Contains(g.Topics, topic) }) {
			http.Error(w, "not allowed: a topic", http.StatusForbidden)
			return Grant{}, false
		}
		g.Topics = wanted
	}
	return g, true
}

// admitOrigin checks the origin of the page. Programs other than browsers send no origin.
func (h *Hub) admitOrigin(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	if slices.Contains(h.cfg.AllowedOrigins, origin) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Methods", "GET, POST")
			w.Header().Set("Access-Control-Allow-Headers", "Authorization, Last-Event-ID, X-Requested-With, X-SignalR-User-Agent")
		}
		return true
	}
	// Behind a proxy that terminates TLS the server knows its host, not its scheme.
	if u, err := url.Parse(origin); err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
		return true
	}
	http.Error(w, "not allowed: the origin", http.StatusForbidden)
	return false
}
