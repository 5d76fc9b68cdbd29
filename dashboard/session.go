package dashboard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/waybill-go/waybill/internal/bearer"
)

const maxSessions = 10_000 // more are not kept; the one that ends first is dropped

// sessions are the sessions of people who have signed in with a secret. Only hashes of their ids are
// kept.
type sessions struct {
	ttl  time.Duration
	mu   sync.Mutex
	live map[[sha256.Size]byte]session
}

type session struct {
	name   string      // of the person
	secret bearer.Hash // used to sign in; its grant is looked up again each time
	from   string      // address
	begun  time.Time
	ends   time.Time
}

func newSessions(ttl time.Duration) *sessions {
	return &sessions{ttl: ttl, live: make(map[[sha256.Size]byte]session)}
}

// begin returns the id of a new session.
func (s *sessions) begin(one session) string {
	id := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom()
	one.begun = time.Now()
	one.ends = one.begun.Add(s.ttl)
	s.live[sha256.Sum256([]byte(id))] = one
	return id
}

func (s *sessions) makeRoom() {
	var first [sha256.Size]byte
	earliest := time.Time{}
	for id, one := range s.live {
		if time.Now().After(one.ends) {
			delete(s.live, id)
		} else if earliest.IsZero() || one.ends.Before(earliest) {
			first, earliest = id, one.ends
		}
	}
	if len(s.live) >= maxSessions {
		delete(s.live, first)
	}
}

func (s *sessions) find(id string) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.live[sha256.Sum256([]byte(id))]
	return one, ok && time.Now().Before(one.ends)
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, sha256.Sum256([]byte(id)))
}

// identity is the sender of a request, and the proof of it.
type identity struct {
	User
	session string // id, "" without one
	bearer  bool   // a browser never sends a bearer token by itself, so no form token is needed
}

// identify authenticates the sender of the request, and returns false if nothing proves it. The error
// is for an address that has sent too many wrong tokens; sessions from there continue.
func (c *call) identify() (bool, error) {
	if user, id, ok := c.d.inSession(c.r); ok {
		c.who = identity{User: user, session: id}
		return true, nil
	}
	_, sentToken := bearer.Of(c.r)
	sentToken = sentToken && c.d.signIn != nil
	if sentToken {
		if err := c.mayTry(); err != nil {
			return false, err
		}
	}
	user, ok := c.d.access.Authenticate(c.r)
	if sentToken && !ok {
		c.failed()
	}
	if !ok || user.Role <= Nobody {
		return false, nil
	}
	c.who = identity{User: user, bearer: sentToken}
	return true, nil
}

// inSession returns the person whose session one of the request's cookies belongs to, and its id. A
// sibling of our domain may have set another one of that name. A session whose token no longer exists
// has ended; otherwise the token's current grant applies.
func (d *Dashboard) inSession(r *http.Request) (user User, id string, ok bool) {
	if d.signIn == nil {
		return User{}, "", false
	}
	for _, c := range r.CookiesNamed(d.cookieName(r)) {
		if one, ok := d.sessions.find(c.Value); ok {
			if user, ok := d.signIn.checkHash(one.secret); ok {
				return user, c.Value, true
			}
		}
	}
	return User{}, "", false
}

// cookieName is the name of the session's cookie. Over TLS its prefix keeps other hosts of the domain
// and plain HTTP from setting one, and requires the path /, so the name contains where we are
// mounted.
func (d *Dashboard) cookieName(r *http.Request) string {
	const name = "waybill_session"
	if !d.isSecure(r) {
		return name
	}
	asked, _, _ := strings.Cut(r.RequestURI, "?")
	mount := strings.TrimSuffix(asked, r.URL.EscapedPath())
	if mount == "" || mount == asked {
		return "__Host-" + name
	}
	sum := sha256.Sum256([]byte(mount))
	return "__Host-" + name + "_" + hex.EncodeToString(sum[:6])
}

// formToken proves that a form was created here, for this person and session.
func (d *Dashboard) formToken(who identity) string {
	mac := hmac.New(sha256.New, d.formKey[:])
	mac.Write([]byte(who.session + "\x00" + who.Name))
	return hex.EncodeToString(mac.Sum(nil))
}

func (d *Dashboard) hasFormToken(r *http.Request, who identity) bool {
	return who.bearer || hmac.Equal([]byte(r.PostFormValue("form")), []byte(d.formToken(who)))
}

// login is what the sign-in page shows.
type login struct {
	Next  string // where to go then
	Form  bool   // people sign in here
	Wrong bool   // the token is unknown
}

// askWho answers an unauthenticated request.
func (d *Dashboard) askWho(c *call) error {
	next := ""
	if c.r.Method == http.MethodGet {
		next = c.r.URL.RequestURI()
	}
	if d.signIn != nil {
		c.w.Header().Set("WWW-Authenticate", `Bearer realm="waybill"`)
	}
	return c.show(http.StatusUnauthorized, "login", "Sign in", login{Next: next, Form: d.signIn != nil})
}

func (d *Dashboard) loginPage(c *call) error {
	return c.show(http.StatusOK, "login", "Sign in", login{Form: d.signIn != nil})
}

// logIn checks the token of the form and begins a session.
func (d *Dashboard) logIn(c *call) error {
	if d.signIn == nil {
		return errNoPage
	}
	if err := c.mayTry(); err != nil {
		return err
	}
	secret := sha256.Sum256([]byte(strings.TrimSpace(c.r.PostFormValue("token"))))
	user, ok := d.signIn.checkHash(secret)
	if !ok {
		c.failed()
		return c.show(http.StatusUnauthorized, "login", "Sign in", login{Next: c.r.PostFormValue("next"), Form: true, Wrong: true})
	}
	one := session{name: user.Name, secret: secret, from: d.client(c.r).String()}
	d.setCookie(c, d.sessions.begin(one), int(d.cfg.SessionTTL.Seconds()))
	return c.redirect(localPath(c.r.PostFormValue("next")))
}

func (d *Dashboard) logOut(c *call) error {
	if c.who.session != "" {
		d.sessions.end(c.who.session)
		d.setCookie(c, "", -1)
	}
	return c.redirect("login")
}

// setCookie sets the session's cookie. Without TLS it names no path: it applies to the path of the
// sign-in form, and so to the path that the handler is mounted at.
func (d *Dashboard) setCookie(c *call, value string, maxAge int) {
	cookie := &http.Cookie{
		Name: d.cookieName(c.r), Value: value, MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: d.isSecure(c.r),
	}
	if cookie.Secure {
		cookie.Path = "/"
	}
	http.SetCookie(c.w, cookie)
}

// localPath returns a path below this handler without its first slash, "" for anything else.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(next, "/") || strings.ContainsAny(next, "\\\r\n\t") {
		return ""
	}
	return next[1:]
}
