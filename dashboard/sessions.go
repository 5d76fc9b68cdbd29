package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"time"
)

// sessionList is what the page about sessions shows.
type sessionList struct {
	All  bool // everybody's
	List []sessionView
}

type sessionView struct {
	ID, Name, From string
	Begun, Ends    time.Time
	Own            bool // the one that asks
}

// handle names a session on pages; its id, which the browser keeps, cannot be derived from it.
func handle(id [sha256.Size]byte) string { return hex.EncodeToString(id[:8]) }

// list returns the sessions that have not ended, those of one person or of everybody (""), the
// youngest first.
func (s *sessions) list(name, current string) []sessionView {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := sha256.Sum256([]byte(current))
	var list []sessionView
	for id, one := range s.live {
		if time.Now().Before(one.ends) && (name == "" || one.name == name) {
			list = append(list, sessionView{handle(id), one.name, one.from, one.begun.UTC(), one.ends.UTC(), current != "" && id == own})
		}
	}
	slices.SortFunc(list, func(a, b sessionView) int { return b.Begun.Compare(a.Begun) })
	return list
}

// endOne ends the session that a page has named, of one person or of anybody (""), and reports
// whether it existed.
func (s *sessions) endOne(name, wanted string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, one := range s.live {
		if handle(id) == wanted && (name == "" || one.name == name) {
			delete(s.live, id)
			return true
		}
	}
	return false
}

// whose returns the person whose sessions the user may see and end: for an admin of all tenants,
// everybody's.
func (c *call) whose() string {
	if c.who.Role >= Admin && c.who.Tenant == "" {
		return ""
	}
	return c.who.Name
}

func (d *Dashboard) sessionsPage(c *call) error {
	if d.signIn == nil {
		return errNoPage
	}
	return c.show(http.StatusOK, "sessions", "Sessions", sessionList{All: c.whose() == "", List: d.sessions.list(c.whose(), c.who.session)})
}

func (d *Dashboard) endSession(c *call) error {
	if d.signIn == nil || !d.sessions.endOne(c.whose(), c.r.PostFormValue("session")) {
		return errNoPage
	}
	d.cfg.Logger.Info("dashboard: a session was ended", "by", c.who.Name)
	return c.redirect("sessions")
}
